"""The fault matrix: injects every fault for real and reports the result of each row.

    python -m tools.reliability.fault_matrix --size small|published --only C,R,G2 --seed N

The injections are the tests marked `@pytest.mark.fault(row, …)`. `small` leaves out those marked `chaos` or `full`;
`published` runs all of them, one at a time.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from palaestra.core.errors import MissingExtra, NotFound, PalaestraError, RunFailed
from tools.reliability import fault_report
from tools.reliability.fault_rows import Row, choose_rows, named_rows

PROGRAM = "python -m tools.reliability.fault_matrix"
CHECKOUT = Path(__file__).parents[2]
SIZES = {
    "small": ["-m", "fault and not chaos and not full"],
    "published": ["-m", "fault", "-n", "0", "--timeout", "7200"],
}
SEED_VARIABLE = "PALAESTRA_CHAOS_SEED"  # read by the fixture `chaos_seed`
NO_TESTS_SELECTED = 5  # exit code of pytest


def parse(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tools.reliability.fault_matrix", description="The fault matrix, row by row."
    )
    parser.add_argument("--size", choices=sorted(SIZES), default="small", help="small: minutes; published: hours")
    parser.add_argument("--only", default="", help="groups (C) or rows (G2) of the matrix, comma-separated")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random choices (default 0)")
    parser.add_argument("--json", type=Path, default=None, help="default build/chaos-SIZE.json in the checkout")
    parser.add_argument("--list", action="store_true", help="list the rows and the files that test them")
    return parser.parse_args(words)


def find_tests(checkout: Path, rows: tuple[Row, ...]) -> dict[Path, set[str]]:
    """Test files that name one of the rows, with all rows that each names. Only these files are collected."""
    tests = checkout / "tests"
    if not (tests / "conftest.py").is_file():
        raise NotFound(
            f"No tests found in {tests}.",
            "Run the fault matrix in a checkout of the repository, installed with: pip install -e '.[dev]'",
        )
    wanted = {row.id for row in rows}
    named = {path: named_rows(path.read_text()) for path in sorted(tests.rglob("test_*.py"))}
    return {path: names for path, names in named.items() if names & wanted}


def run_tests(checkout: Path, files: list[Path], rows: tuple[Row, ...], size: str, seed: int) -> list[dict[str, Any]]:
    """One entry per test. The output of pytest goes to standard error."""
    if importlib.util.find_spec("pytest") is None:
        raise MissingExtra("The fault matrix", "dev")
    with tempfile.TemporaryDirectory(prefix="palaestra-chaos-") as folder:
        seen = Path(folder) / "seen.json"
        command = [sys.executable, "-m", "pytest", "-p", "tools.reliability.fault_plugin", *SIZES[size]]
        command += ["-p", "no:cacheprovider", "--hypothesis-seed", str(seed), "--chaos-json", str(seen)]
        command += ["--chaos-rows", ",".join(row.id for row in rows), *map(str, files)]
        done = subprocess.run(
            command,
            cwd=checkout,
            env={**os.environ, SEED_VARIABLE: str(seed), "PYTHONPATH": with_tools(os.environ.get("PYTHONPATH"))},
            stdout=sys.stderr,
            check=False,
        )
        if not seen.exists() or done.returncode not in {0, 1, NO_TESTS_SELECTED}:
            raise RunFailed(
                f"pytest could not run the injections (exit code {done.returncode}); none of these rows was tested: "
                f"{', '.join(row.id for row in rows)}.",
                "The output of pytest above shows the reason.",
            )
        tests: list[dict[str, Any]] = json.loads(seen.read_text())
    return tests


def with_tools(search_path: str | None) -> str:
    """A PYTHONPATH on which pytest finds the plugin of this package."""
    return os.pathsep.join(filter(None, [str(CHECKOUT), search_path]))


def about(size: str, seed: int, seconds: float, checkout: Path) -> dict[str, Any]:
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=checkout, capture_output=True, text=True, check=False)
    return {
        "size": size,
        "seed": seed,
        "seconds": round(seconds, 1),
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cores": os.cpu_count(),
    }


def show_list(rows: tuple[Row, ...], files: dict[Path, set[str]], checkout: Path) -> None:
    for row in rows:
        print(f"{row.id:<4} {row.fault}: {row.promise}")
        for path in [path for path, names in files.items() if row.id in names]:
            print(f"       {path.relative_to(checkout)}")


def run_matrix(chosen: argparse.Namespace, checkout: Path) -> bool:
    """Run, print and write the results. True if every claimed row held."""
    rows = choose_rows([word for word in chosen.only.split(",") if word])
    files = find_tests(checkout, rows)
    if chosen.list:
        show_list(rows, files, checkout)
        return True
    began = time.monotonic()
    tests = run_tests(checkout, list(files), rows, chosen.size, chosen.seed) if files else []
    named = {name for names in files.values() for name in names} if chosen.size == "small" else set()
    results = fault_report.evaluate_rows(rows, tests, named)
    target = chosen.json or checkout / "build" / f"chaos-{chosen.size}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    summary = fault_report.to_json(results, about(chosen.size, chosen.seed, time.monotonic() - began, checkout))
    target.write_text(json.dumps(summary, indent=1) + "\n")
    print(fault_report.table(results))
    print(f"size {chosen.size}, seed {chosen.seed}, {summary['seconds']} s; everything in {target}")
    if failed := fault_report.failures(results):
        print(f"\n{failed}")
    return fault_report.is_good(results)


def main(words: list[str] | None = None, checkout: Path = CHECKOUT) -> int:
    try:
        return 0 if run_matrix(parse(words), checkout) else 1
    except PalaestraError as error:
        print(error, file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
