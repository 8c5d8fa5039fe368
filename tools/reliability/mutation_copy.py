"""A copy of the project in which mutants live, so that nobody else meets one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

from palaestra.core.errors import NotFound, RunFailed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from tools.reliability.mutations import Mutant

# The import hook of an editable install goes before PYTHONPATH; this takes it away, in every process that is started.
SHIM = """import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]
"""
HOUSE = ["-m", "tools.reliability.mutation_worker"]
# A mutant may signal the wrong process: in a namespace of its own it finds only what it started itself.
APART = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


class ProjectCopy:
    """Open as long as its `with`; asks a process in the copy, which has what is slow to load already."""

    def __init__(self, checkout: Path) -> None:
        self._holder = TemporaryDirectory(prefix="palaestra-mutants-")
        self.folder = Path(self._holder.name) / "project"
        self.log = Path(self._holder.name) / "pytest.log"
        copy_project(checkout, self.folder)
        self._process = subprocess.Popen(
            [*_apart(), sys.executable, *HOUSE],
            cwd=self.folder,
            env={**os.environ, **self._variables()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        self._holder.cleanup()

    def ask(
        self,
        file: str,
        tests: list[str],
        *,
        mutants: Sequence[Mutant] = (),
        source: str | None = None,
        order: Sequence[str] = (),
        seconds: float = 3600.0,
    ) -> dict[str, Any]:
        """Whether `tests` fail, and with which of the mutants (all of them within functions).

        `source` is what `file` says instead, also when it is loaded; `order` is that of the single tests.
        """
        question: dict[str, Any] = {"file": file, "tests": tests, "seconds": seconds, "log": str(self.log)}
        question["order"] = list(order)
        question["mutants"] = [{"source": mutant.source, "line": mutant.line} for mutant in mutants]
        if source is not None:
            question["source"] = source
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RunFailed(f"The process that tries mutants ended with {self._process.wait()}.")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _variables(self) -> dict[str, str]:
        home = Path(self._holder.name) / "home"
        home.mkdir()
        search = os.pathsep.join([str(self.folder / "shim"), str(self.folder / "src")])
        return {"PYTHONPATH": search, "HOME": str(home), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


def copy_project(checkout: Path, folder: Path) -> None:
    """Everything that git knows or would take in, and what was built."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        check=False,
        cwd=checkout,
        capture_output=True,
        text=True,
    )
    if listed.returncode:
        raise NotFound(f"{checkout} is no checkout of the repository.", "Mutants are tried in a copy of one.")
    built = [*(checkout / "src").rglob("*.so"), *(checkout / "src/palaestra/web/static").rglob("*")]
    made = [str(path.relative_to(checkout)) for path in built]
    for name in [*filter(None, listed.stdout.split("\0")), *made]:
        if (checkout / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(checkout / name, folder / name)
    (folder / "shim").mkdir()
    (folder / "shim" / "sitecustomize.py").write_text(SHIM)


@cache
def _apart() -> tuple[str, ...]:
    """Empty where the machine does not allow it."""
    if shutil.which(APART[0]) is None:
        return ()
    tried = subprocess.run([*APART, "true"], capture_output=True, check=False)
    return () if tried.returncode else APART
