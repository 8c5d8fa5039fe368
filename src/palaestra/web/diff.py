"""How the configs of two runs differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from palaestra.runs.differences import ABSENT, diff_configs
from palaestra.runs.documents import read_config
from palaestra.web.reading import Query
from palaestra.web.route import Call, Endpoint
from palaestra.web.schemas import ANYTHING, TEXT, fields, rows

if TYPE_CHECKING:
    from palaestra.runs.differences import Difference


class DiffQuery(Query):
    other: str = Field(min_length=1, max_length=200, description="the run to compare with")


def show_differences(call: Call) -> dict[str, Any]:
    here, there = call.directory(), call.house.daemon.directory(call.query.other)
    found = diff_configs(read_config(here), read_config(there))
    return {"here": here.id, "there": there.id, "differences": [_plain(one) for one in found]}


def _plain(one: Difference) -> dict[str, Any]:
    """`only` tells a key that one of them lacks from one that is null."""
    only = "there" if one.old is ABSENT else "here" if one.new is ABSENT else ""
    here, there = (None if value is ABSENT else value for value in (one.old, one.new))
    return {"key": one.key_path, "here": here, "there": there, "only": only}


ROUTES = (
    Endpoint(
        "GET",
        "/api/runs/{id}/diff",
        show_differences,
        "what another run was configured differently in",
        DiffQuery,
        answer=fields(
            here=TEXT, there=TEXT, differences=rows(fields(key=TEXT, here=ANYTHING, there=ANYTHING, only=TEXT))
        ),
        errors=(409,),
    ),
)
