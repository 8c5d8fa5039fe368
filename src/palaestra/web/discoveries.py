"""What apps have found, for the page: by the door `palaestra.catalogues`, so that no app is imported here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from palaestra import plugins
from palaestra.web.reading import Query
from palaestra.web.route import Call, Endpoint
from palaestra.web.schemas import ANYTHING, MAPPING, TEXT, WHOLE, fields, rows

if TYPE_CHECKING:
    from palaestra.contracts.catalogue import Catalogue

GROUP = "catalogues"
NAME = "discoveries"


class DiscoveriesQuery(Query):
    format: str = Field("", max_length=40, description="for example 3x3x3; empty: all")


def list_discoveries(call: Call) -> dict[str, Any]:
    return _catalogue().listing(call.house.daemon.root, call.query.format)


def show_discovery(call: Call) -> dict[str, Any]:
    return _catalogue().entry(call.house.daemon.root, call.path["name"])


def _catalogue() -> Catalogue:
    found: Catalogue = plugins.load(GROUP, NAME)
    return found


SUMMARY = fields(
    id=TEXT,
    format=TEXT,
    field=TEXT,
    rank=WHOLE,
    known=ANYTHING,
    comparison=TEXT,
    additions_naive=WHOLE,
    additions_eliminated=WHOLE,
    run=TEXT,
    verdict=TEXT,
)
LISTING = fields(known_as_of=TEXT, known=rows(MAPPING), discoveries=rows(SUMMARY), damaged=rows(TEXT))
ENTRY = fields(
    id=TEXT, formulas=rows(TEXT), straight_line=rows(TEXT), code=TEXT, machine=MAPPING, benchmarks=rows(MAPPING)
)
ROUTES = (
    Endpoint(
        "GET",
        "/api/discoveries",
        list_discoveries,
        "algorithms that were found, beside the best known ranks",
        query=DiscoveriesQuery,
        answer=LISTING,
    ),
    Endpoint("GET", "/api/discoveries/{name}", show_discovery, "one algorithm in full", answer=ENTRY),
)
