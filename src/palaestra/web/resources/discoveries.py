"""What apps have found, for the page: by `App.catalogues`, so that no app is imported here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from palaestra.core import plugins
from palaestra.core.catalogue import SchemeDetail, SchemeList
from palaestra.web.endpoints import Call, Endpoint
from palaestra.web.request_parsing import Query

if TYPE_CHECKING:
    from palaestra.core.catalogue import Catalogue

GROUP = "catalogues"
NAME = "discoveries"


class DiscoveriesQuery(Query):
    format: str = Field("", max_length=40, description="for example 3x3x3; empty: all")


def list_discoveries(call: Call) -> SchemeList:
    return _catalogue().listing(call.context.daemon.root, call.query.format)


def show_discovery(call: Call) -> SchemeDetail:
    return _catalogue().entry(call.context.daemon.root, call.path["name"])


def _catalogue() -> Catalogue:
    found: Catalogue = plugins.load(GROUP, NAME)
    return found


ROUTES = (
    Endpoint(
        "GET",
        "/api/discoveries",
        list_discoveries,
        "algorithms that were found, beside the best known ranks",
        query=DiscoveriesQuery,
        response=SchemeList,
    ),
    Endpoint("GET", "/api/discoveries/{name}", show_discovery, "one algorithm in full", response=SchemeDetail),
)
