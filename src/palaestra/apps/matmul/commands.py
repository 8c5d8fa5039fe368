"""Commands of this app. `palaestra --help` loads this module, so it imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.core.app import CommandPlugin

if TYPE_CHECKING:
    from argparse import ArgumentParser


def _add_verify_arguments(parser: ArgumentParser) -> None:
    files = "schemes as .json or .npz (members U, V, W, or AlphaTensor's format)"
    parser.add_argument("files", nargs="+", metavar="FILE", help=files)
    parser.add_argument("--field", help="gf2, zt, z or q, if the file does not say; default: the strictest valid one")


def _add_discoveries_arguments(parser: ArgumentParser) -> None:
    verbs = "import, export, lift, convert, reduce, project, extend, merge, product or build"
    parser.add_argument(
        "words",
        nargs="*",
        metavar="FORMAT | VERB …",
        help=f"a format such as 3x3x3 to list; or a verb ({verbs}) with schemes (files or archived ids) and key=value",
    )
    parser.add_argument("--quiet", action="store_true", help="import: do not print each scheme")


def _add_discover_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "settings",
        nargs="+",
        metavar="FORMAT | key=value",
        help="a format such as 3x3x3; method=flip, field=gf2, seconds=60, seed=1, walkers=1, target=RANK, run=NAME",
    )
    parser.add_argument("--quiet", action="store_true", help="do not print improvements")


def _add_bench_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "settings",
        nargs="+",
        metavar="DISCOVERY | key=value",
        help="an id, fingerprint, run or format; dtypes=[float32], sizes=[1024], threads=1, levels=3, seconds=2",
    )
    parser.add_argument("--quiet", action="store_true", help="do not print each comparison")


VERIFY = CommandPlugin(
    summary="verify that a scheme multiplies matrices, in exact integers",
    examples=(
        "palaestra verify strassen.json",
        "palaestra verify strassen.json --field z",
        "palaestra verify strassen.json --json",
    ),
    add_arguments=_add_verify_arguments,
    work="palaestra.apps.matmul.verify:verify_files",
)
DISCOVERIES = CommandPlugin(
    summary="list, import, export and combine schemes",
    examples=(
        "palaestra discoveries 2x2x2 --json",
        "palaestra discoveries import strassen.json source='Strassen 1969'",
        "palaestra discoveries product strassen.json strassen.json",
    ),
    add_arguments=_add_discoveries_arguments,
    work="palaestra.apps.matmul.verbs:discoveries",
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
    summary="benchmark a discovered scheme as compiled code against NumPy and BLAS",
    examples=(
        "palaestra bench 2x2x2 sizes=[64] dtypes=[float64] seconds=0.1",
        "palaestra bench 2x2x2 sizes=[64] dtypes=[int64] seconds=0.1 --quiet",
        "palaestra bench 2x2x2 dtypes=[object] object_sizes=[4] bits=[1024] seconds=0.1 --json",
    ),
    add_arguments=_add_bench_arguments,
    work="palaestra.apps.matmul.bench:bench",
)
