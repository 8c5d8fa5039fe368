"""The verbs of this app. `palaestra --help` loads this file, so nothing heavy stands here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.core.app import CommandPlugin

if TYPE_CHECKING:
    from argparse import ArgumentParser


def _add_verify_arguments(parser: ArgumentParser) -> None:
    files = "schemes as .json, or as .npz: with U, V and W, or as AlphaTensor published them"
    parser.add_argument("files", nargs="+", metavar="FILE", help=files)
    parser.add_argument("--field", help="gf2, zt, z or q, where the file does not say; default: the strictest it holds")


def _add_discoveries_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("format", nargs="?", help="for example 3x3x3; default: every format with an entry")


def _add_discover_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="+",
        metavar="FORMAT | key=value",
        help="a format such as 3x3x3; method=flip, field=gf2, seconds=60, seed=1, walkers=1, target=RANK, run=NAME",
    )
    parser.add_argument("--quiet", action="store_true", help="no line for each improvement")


def _add_bench_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="+",
        metavar="DISCOVERY | key=value",
        help="an id, fingerprint, run or format; dtypes=[float32], sizes=[1024], threads=1, levels=3, seconds=2",
    )
    parser.add_argument("--quiet", action="store_true", help="no line for each comparison")


VERIFY = CommandPlugin(
    summary="prove that a file's scheme multiplies matrices, in exact whole numbers",
    examples=(
        "palaestra verify strassen.json",
        "palaestra verify strassen.json --field z",
        "palaestra verify strassen.json --json",
    ),
    add_arguments=_add_verify_arguments,
    work="palaestra.apps.matmul.verify:verify_files",
)
DISCOVERIES = CommandPlugin(
    summary="schemes that were found here, beside the best known ranks of the same field",
    examples=("palaestra discoveries", "palaestra discoveries 3x3x3", "palaestra discoveries 2x2x2 --json"),
    add_arguments=_add_discoveries_arguments,
    work="palaestra.apps.matmul.catalogue:list_discoveries",
)
DISCOVER = CommandPlugin(
    summary="search for a scheme with fewer multiplications",
    examples=(
        "palaestra discover 2x2x2 seconds=1",
        "palaestra discover 2x2x3 field=gf2 seconds=1 seed=2",
        "palaestra discover 2x2x2 seconds=1 run=again --json",
    ),
    add_arguments=_add_discover_arguments,
    work="palaestra.apps.matmul.discover:discover",
)
BENCH = CommandPlugin(
    summary="a discovered scheme as compiled code, timed against NumPy and BLAS",
    examples=(
        "palaestra bench 2x2x2 sizes=[64] dtypes=[float64] seconds=0.1",
        "palaestra bench 2x2x2 sizes=[64] dtypes=[int64] seconds=0.1 --quiet",
        "palaestra bench 2x2x2 dtypes=[object] object_sizes=[4] bits=[1024] seconds=0.1 --json",
    ),
    add_arguments=_add_bench_arguments,
    work="palaestra.apps.matmul.bench:bench",
)
