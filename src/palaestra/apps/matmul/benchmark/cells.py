"""One comparison of a benchmark: a dtype and a size, the scheme at several levels against the platform's product."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.matmul.auto import MIN_SURE_GAIN, NUMPY
from palaestra.apps.matmul.benchmark.timing import Timing, ratio_of, time_interleaved

if TYPE_CHECKING:
    from palaestra.apps.matmul.benchmark.big_integers import BigIntegerExecutor
    from palaestra.apps.matmul.benchmark.executor import Executor, Matrix
    from palaestra.apps.matmul.config import BenchConfig

EVEN_MARGIN = 0.02  # gains within 2 % of 1 are even
ROWS_CHECKED = 8  # rows of the product compared in higher precision
INT64_BOUND = 1 << 20  # bound of int64 entries: sums of 4096 products stay below 2^53, where float64 is exact
FLOAT_EXACT = 2**53
BASELINE, LEAF, FLOATS = "NumPy", "leaf", "float64 BLAS"


@dataclass(frozen=True)
class Cell:
    dtype: str
    size: int
    baseline: str
    baseline_seconds: float | None  # None: skipped, too slow
    seconds: float  # of the scheme, at its best number of levels
    levels: int
    gain: float | None  # of the scheme against the baseline
    kernel_gain: float | None  # of the leaf against the baseline; 1 if the leaf is the baseline
    algorithm_gain: float  # of the scheme against its own leaf
    verdict: str  # win, even, loss
    auto_levels: int
    detail: str = ""  # bit length or modulus
    error: float | None = None  # maximum error relative to the largest entry; floats only
    baseline_error: float | None = None
    is_exact: bool | None = None  # integers: equal to the baseline, or to the leaf without one
    others: dict[str, float] = field(default_factory=dict)  # seconds of the other candidates
    sure_gain: float | None = None  # lower bound of algorithm_gain, one-sided 97.5 %; used by `auto`


def classify_gain(gain: float) -> str:
    if gain > 1 + EVEN_MARGIN:
        return "win"
    return "loss" if gain < 1 - EVEN_MARGIN else "even"


def levels_for(sides: tuple[int, int, int], size: int, config: BenchConfig) -> list[int]:
    """Levels to time; at least one."""
    side = max(sides)
    return [1, *(k for k in range(2, config.levels + 1) if size // side**k >= config.smallest_block)]


def float_cell(executor: Executor, size: int, config: BenchConfig) -> Cell:
    rng = np.random.default_rng([config.seed, size])
    a, b = (rng.standard_normal((size, size)).astype(executor.dtype) for _ in range(2))
    out, other = np.empty_like(a), np.empty_like(a)
    candidates: dict[str, Any] = {BASELINE: lambda: np.matmul(a, b, out=other)}
    for levels in levels_for(executor.scheme.format.sides, size, config):
        candidates[str(levels)] = _call(executor, a, b, out, levels)
    timings = time_interleaved(candidates, config.seconds, frozenset({BASELINE, "1"}))
    levels = _best_level(timings)
    executor(a, b, out, levels)
    np.matmul(a, b, out=other)
    exact = _reference_rows(a, b)
    return _compare_with_numpy(
        executor.dtype.name,
        size,
        "NumPy (BLAS)",
        timings,
        levels,
        error=_error(out, exact),
        baseline_error=_error(other, exact),
        others={f"{name} levels": each.best for name, each in timings.items() if name not in {BASELINE, str(levels)}},
    )


def integer_cell(executor: Executor, size: int, config: BenchConfig, modulus: int = 0) -> Cell:
    """int64, or modular with one reduction at the end: sums stay below 2^63, so it is exact."""
    rng = np.random.default_rng([config.seed, size])
    bound = modulus or INT64_BOUND
    a, b = (rng.integers(0 if modulus else -bound + 1, bound, (size, size)) for _ in range(2))
    out = np.empty_like(a)
    candidates: dict[str, Any] = {LEAF: _reduced(_call(executor, a, b, out, 0), modulus)}
    for levels in levels_for(executor.scheme.format.sides, size, config):
        candidates[str(levels)] = _reduced(_call(executor, a, b, out, levels), modulus)
    if size * bound * bound < FLOAT_EXACT:
        candidates[FLOATS] = _reduced(lambda: _multiply_as_float64(a, b), modulus)
    if _numpy_seconds(size) <= config.longest:
        candidates[BASELINE] = _reduced(lambda: np.matmul(a, b), modulus)
    timings = time_interleaved(candidates, config.seconds, frozenset({LEAF, "1", FLOATS}))
    levels = _best_level(timings)
    reference = candidates[BASELINE if BASELINE in candidates else LEAF]().copy()
    is_exact = bool((candidates[str(levels)]() == reference).all())
    return _build_integer_cell("modular" if modulus else "int64", size, modulus, timings, levels, is_exact)


def object_cell(executor: BigIntegerExecutor, size: int, bits: int, config: BenchConfig) -> Cell:
    rng = np.random.default_rng([config.seed, size, bits])
    a, b = (_random_integers(size, bits, rng) for _ in range(2))
    side = max(executor.scheme.format.sides)
    max_levels = next((k for k in range(6, 0, -1) if side**k <= size), 1)
    candidates: dict[str, Any] = {BASELINE: lambda: np.matmul(a, b)}
    for levels in range(1, max_levels + 1):
        candidates[str(levels)] = lambda levels=levels: executor(a, b, levels)
    timings = time_interleaved(candidates, config.seconds, frozenset({BASELINE, "1"}))
    levels = _best_level(timings)
    return _compare_with_numpy(
        "object",
        size,
        "NumPy (Python integers)",
        timings,
        levels,
        detail=f"{bits} bits",
        is_exact=bool((executor(a, b, levels) == np.matmul(a, b)).all()),
    )


def _compare_with_numpy(
    dtype: str, size: int, baseline: str, timings: dict[str, Timing], levels: int, **further: Any
) -> Cell:
    """A cell whose leaf is NumPy's product, so that the gain is the algorithm's."""
    numpy, scheme = timings[BASELINE].best, timings[str(levels)].best
    gain = numpy / scheme
    sure, used = _best_lower_bound(timings, BASELINE)
    return Cell(
        dtype,
        size,
        baseline,
        numpy,
        scheme,
        levels,
        gain,
        1.0,
        gain,
        classify_gain(gain),
        used,
        sure_gain=sure,
        **further,
    )


def _build_integer_cell(
    dtype: str, size: int, modulus: int, timings: dict[str, Timing], levels: int, is_exact: bool
) -> Cell:
    scheme, leaf = timings[str(levels)].best, timings[LEAF].best
    numpy = timings[BASELINE].best if BASELINE in timings else None
    sure, fastest = _best_lower_bound(timings, LEAF)
    is_slower = numpy is not None and numpy < min(scheme, leaf)
    rivals = [numpy] if numpy is not None else [leaf]
    rivals += [timings[FLOATS].best] if FLOATS in timings else []
    return Cell(
        dtype,
        size,
        BASELINE,
        numpy,
        scheme,
        levels,
        numpy / scheme if numpy is not None else None,
        numpy / leaf if numpy is not None else None,
        leaf / scheme,
        classify_gain(min(rivals) / scheme),
        NUMPY if is_slower else fastest,
        detail=f"modulo {modulus}" if modulus else "",
        is_exact=is_exact,
        others={
            name if name in {LEAF, FLOATS} else f"{name} levels": each.best
            for name, each in timings.items()
            if name not in {BASELINE, str(levels)}
        },
        sure_gain=sure,
    )


def _best_lower_bound(timings: dict[str, Timing], rival: str) -> tuple[float, int]:
    """The highest lower bound of a gain and its levels; 0 levels if the bound is below MIN_SURE_GAIN."""
    sure = {int(name): ratio_of(timings[rival], each).low for name, each in timings.items() if name.isdigit()}
    levels = max(sure, key=lambda name: sure[name])
    return sure[levels], levels if sure[levels] >= MIN_SURE_GAIN else 0


def _call(executor: Executor, a: Matrix, b: Matrix, out: Matrix, levels: int) -> Any:
    return lambda: executor(a, b, out, levels)


def _reduced(work: Any, modulus: int) -> Any:
    return (lambda: work() % modulus) if modulus else work


def _multiply_as_float64(a: Matrix, b: Matrix) -> Matrix:
    product: Matrix = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
    return product


def _best_level(timings: dict[str, Timing]) -> int:
    return int(min((name for name in timings if name.isdigit()), key=lambda name: timings[name].best))


def _numpy_seconds(size: int) -> float:
    """An estimate: NumPy takes 0.5 to 2 ns for each integer multiplication."""
    return 2e-9 * size**3


def _reference_rows(a: Matrix, b: Matrix) -> Matrix:
    """The first rows of the product in higher precision."""
    longer = np.float64 if a.dtype == np.float32 else np.longdouble
    rows: Matrix = np.matmul(a[:ROWS_CHECKED].astype(longer), b.astype(longer))
    return rows


def _error(made: Matrix, exact: Matrix) -> float:
    return float(np.abs(made[: len(exact)] - exact).max() / np.abs(exact).max())


def _random_integers(size: int, bits: int, rng: np.random.Generator) -> Matrix:
    numbers = [int.from_bytes(rng.bytes(bits // 8), "little") | 1 << (bits - 1) for _ in range(size * size)]
    made = np.empty(size * size, dtype=object)
    made[:] = numbers
    return made.reshape(size, size)
