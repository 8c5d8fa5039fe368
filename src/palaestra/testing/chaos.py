"""The chaos bench: every row of the fault matrix, injected for real, with its figures.

    python -m palaestra.testing.chaos --size small|published --only C,R,G2 --seed N

The injections are the tests of the house that carry `@pytest.mark.fault(row, …)`; this runs them and tells, row by
row, what was seen. `small` leaves out what is marked `chaos` or `full`; `published` has everything, one at a time.
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
from palaestra.testing import chaos_report
from palaestra.testing.chaos_rows import Row, choose_rows, named_rows

CHECKOUT = Path(__file__).parents[3]
SIZES = {
    "small": ["-m", "fault and not chaos and not full"],
    "published": ["-m", "fault", "-n", "0", "--timeout", "7200"],
}
SEED_VARIABLE = "PALAESTRA_CHAOS_SEED"  # read by the fixture `chaos_seed`
NO_TESTS_SELECTED = 5  # exit code of pytest


def parse(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m palaestra.testing.chaos", description="The fault matrix, row by row.")
    parser.add_argument("--size", choices=sorted(SIZES), default="small", help="small: minutes; published: hours")
    parser.add_argument("--only", default="", help="parts (C) or rows (G2) of the matrix, with commas")
    parser.add_argument("--seed", type=int, default=0, help="of everything that is drawn (default 0)")
    parser.add_argument("--json", type=Path, default=None, help="default build/chaos-SIZE.json in the checkout")
    parser.add_argument("--list", action="store_true", help="only show the rows and the files that meet them")
    return parser.parse_args(words)


def find_tests(checkout: Path, rows: tuple[Row, ...]) -> dict[Path, set[str]]:
    """Test files that name one of the rows, and all that each names; only those are loaded."""
    tests = checkout / "tests"
    if not (tests / "conftest.py").is_file():
        raise NotFound(
            f"The injections are tests, and there are none in {tests}.",
            "Run the chaos bench in a checkout of the repository, installed with: pip install -e '.[dev]'",
        )
    wanted = {row.id for row in rows}
    named = {path: named_rows(path.read_text()) for path in sorted(tests.rglob("test_*.py"))}
    return {path: names for path, names in named.items() if names & wanted}


def run_tests(checkout: Path, files: list[Path], rows: tuple[Row, ...], size: str, seed: int) -> list[dict[str, Any]]:
    """What pytest saw, test by test; its own words go to standard error as they come."""
    if importlib.util.find_spec("pytest") is None:
        raise MissingExtra("The chaos bench", "dev")
    with tempfile.TemporaryDirectory(prefix="palaestra-chaos-") as folder:
        seen = Path(folder) / "seen.json"
        command = [sys.executable, "-m", "pytest", "-p", "palaestra.testing.chaos_plugin", *SIZES[size]]
        command += ["-p", "no:cacheprovider", "--hypothesis-seed", str(seed), "--chaos-json", str(seen)]
        command += ["--chaos-rows", ",".join(row.id for row in rows), *map(str, files)]
        done = subprocess.run(
            command, cwd=checkout, env={**os.environ, SEED_VARIABLE: str(seed)}, stdout=sys.stderr, check=False
        )
        if not seen.exists() or done.returncode not in {0, 1, NO_TESTS_SELECTED}:
            raise RunFailed(
                f"pytest could not run the injections (exit code {done.returncode}); none of these rows was judged: "
                f"{', '.join(row.id for row in rows)}.",
                "What pytest printed above tells why.",
            )
        tests: list[dict[str, Any]] = json.loads(seen.read_text())
    return tests


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


def bench(chosen: argparse.Namespace, checkout: Path) -> bool:
    """Run, print and write; whether every row that is claimed held."""
    rows = choose_rows([word for word in chosen.only.split(",") if word])
    files = find_tests(checkout, rows)
    if chosen.list:
        show_list(rows, files, checkout)
        return True
    began = time.monotonic()
    tests = run_tests(checkout, list(files), rows, chosen.size, chosen.seed) if files else []
    named = {name for names in files.values() for name in names} if chosen.size == "small" else set()
    results = chaos_report.judge_rows(rows, tests, named)
    target = chosen.json or checkout / "build" / f"chaos-{chosen.size}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    told = chaos_report.to_json(results, about(chosen.size, chosen.seed, time.monotonic() - began, checkout))
    target.write_text(json.dumps(told, indent=1) + "\n")
    print(chaos_report.table(results))
    print(f"size {chosen.size}, seed {chosen.seed}, {told['seconds']} s; everything in {target}")
    if failed := chaos_report.failures(results):
        print(f"\n{failed}")
    return chaos_report.is_good(results)


def main(words: list[str] | None = None, checkout: Path = CHECKOUT) -> int:
    try:
        return 0 if bench(parse(words), checkout) else 1
    except PalaestraError as error:
        print(error, file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
