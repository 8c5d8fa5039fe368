"""How the configs of two runs differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pydantic import Field

from palaestra.runs.differences import ABSENT, diff_configs
from palaestra.runs.documents import read_config
from palaestra.web.reading import Query
from palaestra.web.route import Call, Endpoint

if TYPE_CHECKING:
    from palaestra.runs.differences import Difference


class DiffQuery(Query):
    other: str = Field(min_length=1, max_length=200, description="the run to compare with")


class ConfigDifference(TypedDict):
    key: str
    here: Any
    there: Any
    only: Literal["here", "there", ""]  # which of the two has the key; empty: both


class ConfigDifferences(TypedDict):
    here: str
    there: str
    differences: list[ConfigDifference]


def show_differences(call: Call) -> ConfigDifferences:
    here, there = call.directory(), call.house.daemon.directory(call.query.other)
    found = diff_configs(read_config(here), read_config(there))
    return {"here": here.id, "there": there.id, "differences": [_plain(one) for one in found]}


def _plain(one: Difference) -> ConfigDifference:
    """`only` tells a key that one of them lacks from one that is null."""
    only: Literal["here", "there", ""] = "there" if one.old is ABSENT else "here" if one.new is ABSENT else ""
    here, there = (None if value is ABSENT else value for value in (one.old, one.new))
    return {"key": one.key_path, "here": here, "there": there, "only": only}


ROUTES = (
    Endpoint(
        "GET",
        "/api/runs/{id}/diff",
        show_differences,
        "what another run was configured differently in",
        DiffQuery,
        response=ConfigDifferences,
        errors=(409,),
    ),
)
