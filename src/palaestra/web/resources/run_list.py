"""The list of runs: filtered, sorted and paged, singly or grouped by configuration (several seeds)."""

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
MIN_NAME_LENGTH = 3  # of a group: the common prefix of its runs' names
LOWEST = float("-inf")

Sorting = Literal["created", "name", "return", "score", "state"]


class ListQuery(Query):
    state: tuple[RunState, ...] = Field((), max_length=MAX_FILTERS, description="only runs in one of these states")
    search: str = Field("", max_length=200, description="substring of name, id, recipe, environment or tag")
    tag: tuple[str, ...] = Field((), max_length=MAX_FILTERS, description="only runs with all of these tags")
    kind: str = Field("", max_length=80, description="only runs of this kind")
    group: str = Field("", max_length=200, description="only runs of this `group`")
    run: tuple[str, ...] = Field((), max_length=MAX_IDS, description="only these runs, by id; may be repeated")
    sort: Sorting = Field("created", description="sort key")
    order: Literal["asc", "desc"] = Field("desc", description="ascending or descending")
    limit: int = Field(100, ge=1, le=MAX_LISTED, description="number of runs")
    offset: int = Field(0, ge=0, le=1 << 31, description="number of runs to skip")


class RunPage(TypedDict):
    runs: list[Run]
    total: int  # that match the filter
    sequence: int  # follow events from here
    boot: str


class Spread(TypedDict):
    mean: float
    low: float
    high: float
    count: int  # runs with a value


class RunGroup(TypedDict):
    """Runs whose configs differ only in the seed; statistics are over those that match the filter."""

    key: str
    name: str
    first: Run  # in the order of the list
    ids: list[str]
    seed_count: int  # distinct seeds
    states: dict[str, int]  # number of runs by state
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
    sequence = call.context.daemon.events.sequence  # read before the list, so that a follower misses no event
    found = find_runs(call.context, wanted)
    page = describe_runs(call.context, found[wanted.offset : wanted.offset + wanted.limit])
    return {"runs": page, "total": len(found), "sequence": sequence, "boot": call.context.run_facts.boot}


def list_groups(call: Call) -> RunGroupPage:
    """Lists groups in the order of their first runs; a run without a config is its own group."""
    wanted: ListQuery = call.query
    sequence = call.context.daemon.events.sequence
    found = find_runs(call.context, wanted)
    groups: dict[str, list[RunEntry]] = {}
    for entry in found:
        groups.setdefault(_group_of(call.context, entry), []).append(entry)
    page = list(groups.items())[wanted.offset : wanted.offset + wanted.limit]
    return {
        "groups": [describe_group(call.context, key, members) for key, members in page],
        "total": len(groups),
        "run_total": len(found),
        "sequence": sequence,
        "boot": call.context.run_facts.boot,
    }


def find_runs(context: AppContext, wanted: ListQuery) -> list[RunEntry]:
    """Returns all matching runs, sorted."""
    found = [entry for entry in context.daemon.runs() if _is_wanted(context, entry, wanted)]
    found.sort(key=lambda entry: _sort_key(entry, wanted.sort), reverse=wanted.order == "desc")
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
    """Returns the common prefix of the names without a trailing number."""
    if len(names) == 1:
        return names[0]
    start = commonprefix(names).rstrip("-_. 0123456789")  # noqa: RUF071  names, not paths
    return start if len(start) >= MIN_NAME_LENGTH else otherwise


def spread_of(values: Iterable[float | None]) -> Spread | None:
    """Returns mean, minimum and maximum of the finite values; None without values."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return None
    return {"mean": math.fsum(known) / len(known), "low": min(known), "high": max(known), "count": len(known)}


def _group_of(context: AppContext, entry: RunEntry) -> str:
    try:
        return context.run_facts.facts(context.daemon.directory(entry.id)).group or entry.id
    except (NotFound, DamagedFile):  # removed since
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
    except (NotFound, DamagedFile):  # removed since
        return False
    tags = context.run_facts.annotations(directory).tags
    words = (record.name, record.id, record.recipe, context.run_facts.facts(directory).env or "", *tags)
    text = wanted.search.casefold()
    return set(wanted.tag) <= set(tags) and any(text in word.casefold() for word in words)


def _sort_key(entry: RunEntry, sort: Sorting) -> tuple[Any, str]:
    """Sort key with the id last, for a stable order; runs without a value come lowest."""
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
