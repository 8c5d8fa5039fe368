"""What an app has found and keeps (`App.catalogues`): the daemon shows it without knowing the app."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NotRequired, Protocol, TypedDict

if TYPE_CHECKING:
    from pathlib import Path


class KnownRank(TypedDict):
    """The best known ranks of one format, by field; a field that is missing has no known rank."""

    format: str  # "3x3x3"
    naive: int  # multiplications of the schoolbook
    gf2: NotRequired[int]
    zt: NotRequired[int]
    z: NotRequired[int]
    q: NotRequired[int]
    additions: NotRequired[int]  # the fewest known, at the best rank over zt


class FoundScheme(TypedDict):
    """One algorithm, without its formulas."""

    id: str
    format: str
    field: str
    field_meaning: str
    rank: int
    naive_rank: int
    known: int | None  # the best known rank over the same field
    comparison: Literal["matches", "above", "below", "unknown"]
    known_as_of: str
    additions_naive: int
    additions_eliminated: int
    additions_known: int | None
    largest_coefficient: int
    fingerprint: str
    canonical: str  # empty: too many symmetries of its own
    run: str  # empty: it was imported
    method: str
    seed: int | None
    step: int | None
    wall_seconds: float | None
    cpu_seconds: float | None
    found_at: float | None
    verdict: str
    parents: list[str]
    benchmark_count: int
    file: str


class BenchmarkCell(TypedDict):
    """A type of numbers and a size: the scheme beside what the platform offers."""

    dtype: str
    detail: str  # bits of the integers, or the modulus
    size: int
    levels: int
    seconds: float
    baseline: str
    baseline_seconds: float | None  # null: it would have taken too long
    gain: float | None  # of the scheme against the baseline
    kernel_gain: float | None
    algorithm_gain: float
    error: float | None
    baseline_error: float | None
    is_exact: bool | None
    others: dict[str, float]  # seconds of further ways, by name
    verdict: str  # win, even, loss: against the fastest other way


class SchemeBenchmark(TypedDict):
    id: str
    made_at: float
    cpu: str
    threads: int
    hardware: dict[str, Any]
    software: dict[str, str]
    products_checked: int
    crossovers: dict[str, int | None]  # by dtype: from this size on the scheme gains
    cells: list[BenchmarkCell]


class SchemeDetail(FoundScheme):
    formulas: list[str]
    straight_line: list[str]
    code: str
    machine: dict[str, Any]
    benchmarks: list[SchemeBenchmark]  # the newest first


class SchemeList(TypedDict):
    known_as_of: str
    known: list[KnownRank]
    discoveries: list[FoundScheme]
    damaged: list[str]


class Catalogue(Protocol):
    """Plain data for a page. Loading it must not load torch."""

    def listing(self, runs_root: Path, wanted: str) -> SchemeList:
        """All entries, or those of one kind; `UsageError` when there is no such kind."""
        ...

    def entry(self, runs_root: Path, name: str) -> SchemeDetail:
        """One of them in full; `NotFound` when there is none of that name."""
        ...
