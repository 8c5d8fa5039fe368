"""All resources, in one list: a new file enters with an import and a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.web import login

if TYPE_CHECKING:
    from palaestra.web.route import Declared

RESOURCES: tuple[tuple[Declared, ...], ...] = (login.ROUTES,)


def all_routes() -> list[Declared]:
    return [declared for routes in RESOURCES for declared in routes]
