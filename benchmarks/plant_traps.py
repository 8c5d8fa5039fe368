"""Does every test of tests/test_traps.py fail when its defect is planted?

    python benchmarks/plant_traps.py --traps 1,2,17

Each defect is put into a copy of the project, and the tests that are said to catch it are run there. What came of it
is kept under build/, and docs/traps.md is written anew once there is something of every defect. Leaves with 1 when one
was not seen.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from traps.plants import PLANTS

if TYPE_CHECKING:
    from types import ModuleType

    from traps.plant import Plant

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "traps.md"
KEPT = ROOT / "build" / "traps.json"
SECONDS = 900.0
# The import hook of an editable install goes before PYTHONPATH; this takes it away, in every process that is started.
SHIM = """import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]
"""
FAILED = re.compile(r"^(?:FAILED|ERROR) tests/(\S+?)(?:\[.*)?(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    plant: Plant
    caught_by: tuple[str, ...]  # tests, without their parameters; empty: nobody saw it


def main() -> int:
    arguments = parse(sys.argv[1:])
    index = index_of_traps()
    wanted = [each for each in PLANTS if arguments.traps is None or each.trap in arguments.traps]
    known = read_kept()
    with TemporaryDirectory(prefix="palaestra-traps-") as folder:
        copy_project(Path(folder))
        for each in wanted:
            outcome = try_out(each, index.CAUGHT_BY[each.trap], Path(folder))
            show(outcome)
            known[name_of(each)] = list(outcome.caught_by)
            KEPT.parent.mkdir(exist_ok=True)
            KEPT.write_text(json.dumps(known, indent=1))
    if all(name_of(each) in known for each in PLANTS):
        PAGE.write_text(page(index, [Outcome(each, tuple(known[name_of(each)])) for each in PLANTS]))
    return int(any(not known[name_of(each)] for each in wanted))


def read_kept() -> dict[str, list[str]]:
    """What caught each defect when it was last tried."""
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def name_of(planted: Plant) -> str:
    return f"{planted.trap}: {planted.what}"


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traps", type=numbers, default=None, help="numbers, as 1,2,17; default: all")
    return parser.parse_args(words)


def numbers(text: str) -> set[int]:
    return {int(part) for part in text.split(",")}


def index_of_traps() -> ModuleType:
    """tests/test_traps.py: what each trap is, and which tests are for it."""
    spec = importlib.util.spec_from_file_location("test_traps", ROOT / "tests" / "test_traps.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def copy_project(folder: Path) -> None:
    """Everything that git knows, or would take in."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        check=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    (folder / "shim").mkdir()
    (folder / "shim" / "sitecustomize.py").write_text(SHIM)


def try_out(planted: Plant, tests: list[str], folder: Path) -> Outcome:
    """Run the trap's tests with the defect in. What fails without it as well did not catch it."""
    clean = {}
    for edit in planted.edits:
        path = folder / "src" / "palaestra" / edit.file
        text = path.read_text()
        clean.setdefault(path, text)
        path.write_text(text.replace(edit.before, edit.after))
    try:
        suspects = failing(tests, folder)
    finally:
        for path, text in clean.items():
            path.write_text(text)
    anyway = failing(list(suspects), folder) if suspects else ()
    return Outcome(planted, tuple(name for name in suspects if name not in anyway))


def failing(tests: list[str], folder: Path) -> tuple[str, ...]:
    """Which of the tests do not pass, in the copy of the project."""
    words = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "-rfE", "--tb=no", "-m", "not chaos"]
    search = os.pathsep.join([str(folder / "shim"), str(folder / "src")])
    done = subprocess.run(
        [*words, *(f"tests/{test}" for test in tests)],
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    return tuple(dict.fromkeys(FAILED.findall(done.stdout)))


def show(outcome: Outcome) -> None:
    seen = ", ".join(name.partition("::")[2] or name for name in outcome.caught_by) or "NOBODY SAW IT"
    print(f"{outcome.plant.trap:3} {outcome.plant.what}: {seen}", flush=True)


def page(index: ModuleType, outcomes: list[Outcome]) -> str:
    rows = [
        f"| {outcome.plant.trap} | {index.TRAPS[outcome.plant.trap]} | {outcome.plant.what} | {caught(outcome)} |"
        for outcome in outcomes
    ]
    return "\n".join([HEAD, *rows]) + "\n"


def caught(outcome: Outcome) -> str:
    return "<br>".join(f"`{name}`" for name in outcome.caught_by) or "**nobody**"


HEAD = """# Traps

Defects that trainers of this kind have shipped. Each was put back into a copy of the source, and the tests that
`tests/test_traps.py` names for it were run there. The last column is what failed then.

```console
make traps
```

does it again and writes this page.

| trap | what goes wrong | planted | caught by |
|---|---|---|---|"""

if __name__ == "__main__":
    sys.exit(main())
