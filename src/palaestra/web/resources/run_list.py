"""The list of runs: filtered, sorted, a page at a time; one by one, or seeds of one configuration together."""

from __future__ import annotations

import math
from collections import Counter
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pydantic import Field

from palaestra.core.errors import DamagedFile, NotFound
from palaestra.core.run import RunState
from palaestra.web.endpoints import Call, Endpoint
from palaestra.web.request_parsing import Query
from palaestra.web.resources.run_data import Run, describe_run, describe_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from palaestra.daemon.run_entry import RunEntry
    from palaestra.web.context import AppContext

MAX_LISTED = 1000
MAX_FILTERS = 16
MAX_IDS = 200
MIN_NAME_LENGTH = 3  # of a group, taken from what its runs' names begin with
LOWEST = float("-inf")

Sorting = Literal["created", "name", "return", "score", "state"]


class ListQuery(Query):
    state: tuple[RunState, ...] = Field((), max_length=MAX_FILTERS, description="only runs in one of these states")
    search: str = Field("", max_length=200, description="only runs with this in name, id, recipe, environment or tag")
    tag: tuple[str, ...] = Field((), max_length=MAX_FILTERS, description="only runs with all of these tags")
    kind: str = Field("", max_length=80, description="only runs of this kind")
    group: str = Field("", max_length=200, description="only runs of this `group`")
    run: tuple[str, ...] = Field((), max_length=MAX_IDS, description="only these runs, by id; may be repeated")
    sort: Sorting = Field("created", description="by what")
    order: Literal["asc", "desc"] = Field("desc", description="which way")
    limit: int = Field(100, ge=1, le=MAX_LISTED, description="how many")
    offset: int = Field(0, ge=0, le=1 << 31, description="how many to pass over")


class RunPage(TypedDict):
    runs: list[Run]
    total: int  # that fit the filter
    sequence: int  # follow events from here
    boot: str


class Spread(TypedDict):
    mean: float
    low: float
    high: float
    count: int  # runs that have such a figure


class RunGroup(TypedDict):
    """Runs whose configs differ in nothing but the seed. The figures are of all of them that fit the filter."""

    key: str
    name: str
    first: Run  # in the order of the list
    ids: list[str]
    seed_count: int  # different seeds; fewer than runs where one was used twice
    states: dict[str, int]  # state to runs
    returns: Spread | None
    scores: Spread | None


class RunGroupPage(TypedDict):
    groups: list[RunGroup]
    total: int  # groups
    run_total: int
    sequence: int
    boot: str


def list_runs(call: Call) -> RunPage:
    wanted: ListQuery = call.query
    number = call.context.daemon.events.sequence  # before the list: whoever follows from here misses nothing
    found = find_runs(call.context, wanted)
    page = describe_runs(call.context, found[wanted.offset : wanted.offset + wanted.limit])
    return {"runs": page, "total": len(found), "sequence": number, "boot": call.context.run_facts.boot}


def list_groups(call: Call) -> RunGroupPage:
    """Groups stand where the first of their runs would; a run without a configuration is a group of its own."""
    wanted: ListQuery = call.query
    number = call.context.daemon.events.sequence
    found = find_runs(call.context, wanted)
    groups: dict[str, list[RunEntry]] = {}
    for entry in found:
        groups.setdefault(_group_of(call.context, entry), []).append(entry)
    page = list(groups.items())[wanted.offset : wanted.offset + wanted.limit]
    return {
        "groups": [describe_group(call.context, key, members) for key, members in page],
        "total": len(groups),
        "run_total": len(found),
        "sequence": number,
        "boot": call.context.run_facts.boot,
    }


def find_runs(context: AppContext, wanted: ListQuery) -> list[RunEntry]:
    """All that fit, in order."""
    found = [entry for entry in context.daemon.runs() if _is_wanted(context, entry, wanted)]
    found.sort(key=lambda entry: _rank(entry, wanted.sort), reverse=wanted.order == "desc")
    return found


def describe_group(context: AppContext, key: str, members: Sequence[RunEntry]) -> RunGroup:
    first = describe_run(context, members[0])
    facts = [context.run_facts.facts(context.daemon.directory(entry.id)) for entry in members]
    return {
        "key": key,
        "name": group_name([entry.record.name for entry in members], first["recipe"] or first["env"] or first["name"]),
        "first": first,
        "ids": [entry.id for entry in members],
        "seed_count": len({one.seed for one in facts if one.seed is not None}),
        "states": dict(Counter(str(entry.state) for entry in members)),
        "returns": spread_of(entry.record.summary.get("episodic_return") for entry in members),
        "scores": spread_of(entry.record.summary.get("score") for entry in members),
    }


def group_name(names: Sequence[str], otherwise: str) -> str:
    """What all the names begin with, without a number at its end."""
    if len(names) == 1:
        return names[0]
    start = commonprefix(names).rstrip("-_. 0123456789")  # noqa: RUF071  names, not paths
    return start if len(start) >= MIN_NAME_LENGTH else otherwise


def spread_of(values: Iterable[float | None]) -> Spread | None:
    """Of the values that are there; None where there is none."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return None
    return {"mean": math.fsum(known) / len(known), "low": min(known), "high": max(known), "count": len(known)}


def _group_of(context: AppContext, entry: RunEntry) -> str:
    try:
        return context.run_facts.facts(context.daemon.directory(entry.id)).group or entry.id
    except (NotFound, DamagedFile):  # removed meanwhile
        return entry.id


def _is_wanted(context: AppContext, entry: RunEntry, wanted: ListQuery) -> bool:
    record = entry.record
    if wanted.state and record.state not in wanted.state:
        return False
    if wanted.kind and record.kind != wanted.kind:
        return False
    if wanted.run and entry.id not in wanted.run:
        return False
    if wanted.group and _group_of(context, entry) != wanted.group:
        return False
    if not wanted.tag and not wanted.search:
        return True
    try:
        directory = context.daemon.directory(entry.id)
    except (NotFound, DamagedFile):  # removed meanwhile
        return False
    tags = context.run_facts.annotations(directory).tags
    words = (record.name, record.id, record.recipe, context.run_facts.facts(directory).env or "", *tags)
    text = wanted.search.casefold()
    return set(wanted.tag) <= set(tags) and any(text in word.casefold() for word in words)


def _rank(entry: RunEntry, sort: Sorting) -> tuple[Any, str]:
    """The id last, so that equal ones always stand in the same order; runs without a number are the lowest."""
    record = entry.record
    first: Any = {
        "created": record.id,
        "name": record.name.casefold(),
        "return": record.summary.get("episodic_return", LOWEST),
        "score": record.summary.get("score", LOWEST),
        "state": str(record.state),
    }[sort]
    return (LOWEST if first != first else first, record.id)


ROUTES = (
    Endpoint("GET", "/api/runs", list_runs, "runs, newest first", query=ListQuery, response=RunPage),
    Endpoint(
        "GET",
        "/api/run-groups",
        list_groups,
        "runs whose configurations differ only in the seed, together",
        query=ListQuery,
        response=RunGroupPage,
    ),
)
