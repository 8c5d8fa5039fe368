"""Types of the catalogue of discovered algorithms (`App.catalogues`), which the daemon serves without the app."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NotRequired, Protocol, TypedDict

if TYPE_CHECKING:
    from pathlib import Path


class KnownRank(TypedDict):
    """The best known ranks of one format, by field; a missing field has no known rank."""

    format: str  # "3x3x3"
    naive: int  # multiplications of the standard algorithm
    gf2: NotRequired[int]
    zt: NotRequired[int]
    z: NotRequired[int]
    q: NotRequired[int]
    z3: NotRequired[int]
    qi: NotRequired[int]
    additions: NotRequired[int]  # the fewest known, at the best rank over zt


class FoundScheme(TypedDict):
    """One algorithm, without its formulas."""

    id: str
    format: str
    field: str
    field_meaning: str
    holds_over: list[str]  # all fields over which it is valid
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
    canonical: str  # empty: the scheme has too many symmetries
    run: str  # empty: imported
    method: str
    seed: int | None
    step: int | None
    wall_seconds: float | None
    cpu_seconds: float | None
    found_at: float | None
    source: str  # of an imported scheme
    license: str
    imported_file: str
    origin: str  # discovered, reproduced, imported, or derived from its parents
    parents: list[str]
    benchmark_count: int
    file: str


class BenchmarkCell(TypedDict):
    """A benchmark of a dtype and a size: the scheme and the baselines."""

    dtype: str
    detail: str  # bits of the integers, or the modulus
    size: int
    levels: int
    seconds: float
    baseline: str
    baseline_seconds: float | None  # null: it would take too long
    gain: float | None  # baseline seconds / scheme seconds
    kernel_gain: float | None
    algorithm_gain: float
    error: float | None
    baseline_error: float | None
    is_exact: bool | None
    others: dict[str, float]  # seconds of other methods, by name
    result: str  # win, even, loss: against the fastest other method


class SchemeBenchmark(TypedDict):
    id: str
    made_at: float
    cpu: str
    threads: int
    hardware: dict[str, Any]
    software: dict[str, str]
    products_checked: int
    crossovers: dict[str, int | None]  # by dtype: the size from which the scheme is faster
    cells: list[BenchmarkCell]


class SchemeDetail(FoundScheme):
    formulas: list[str]
    straight_line: list[str]
    code: str
    machine: dict[str, Any]
    benchmarks: list[SchemeBenchmark]  # newest first


class SchemeList(TypedDict):
    known_as_of: str
    known: list[KnownRank]
    discoveries: list[FoundScheme]
    damaged: list[str]


class Catalogue(Protocol):
    """Plain data for the page. Loading it must not import torch."""

    def listing(self, runs_root: Path, wanted: str) -> SchemeList:
        """Returns all entries, or those of one format. Raises `UsageError` for an unknown format."""
        ...

    def entry(self, runs_root: Path, name: str) -> SchemeDetail:
        """Returns one entry in full. Raises `NotFound`."""
        ...
