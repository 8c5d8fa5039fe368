"""Where mutants are tried: a process in a copy of the project that has torch and pytest already, and forks for each.

    python -m palaestra.testing.mutant_house      (one question as JSON a line, one answer a line)

A mutant within a function is put into what was loaded, after pytest has found its tests: a try costs a fork and the
tests that come by the line. One elsewhere is there before anything of Palaestra is loaded, which costs seconds. Either
way it stands in the file too, for the processes that tests start.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

AHEAD = ("torch", "numpy", "gymnasium", "hypothesis", "schemathesis", "starlette", "httpx", "pydantic", "safetensors")
MOST_MEMORY = 16 << 30  # bytes of addresses, of which torch alone takes many: a mutant may ask without end
LOADED = "ignore::pytest.PytestAssertRewriteWarning"  # plugins of pytest are, on purpose
WORDS = ["-n", "0", "-q", "-x", "-p", "no:cacheprovider", "--hypothesis-seed", "0", "-W", LOADED]
WORDS += ["-m", "not chaos and not full and not slow"]
LOOK_SECONDS = 0.005
LEAST_SECONDS, TIMES_LONGER = 10.0, 5.0  # a try that takes longer than the clean one by so much goes on for ever


class Trier:
    """Pytest's side: when the tests are found, each mutant is tried on them in a fork."""

    def __init__(self, file: Path, mutants: Sequence[dict[str, Any]]) -> None:
        self.clean: dict[str, Any] = {"failed": "the tests could not be loaded"}
        self.answers: list[dict[str, Any]] = []
        self._file = file
        self._mutants = mutants
        self._failed = ""
        self._lines: set[int] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed = self._failed or report.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed:
            return None
        before, began = self._file.read_text(), time.monotonic()
        self.clean = apart(lambda: self._with_lines(session.items), 900.0)
        seconds = LEAST_SECONDS + TIMES_LONGER * (time.monotonic() - began)
        for mutant in self._mutants if not self.clean["failed"] else ():
            passing = [
                item for item, lines in zip(session.items, self.clean["lines"], strict=True) if mutant["line"] in lines
            ]
            write_source(self._file, mutant["source"])
            self.answers.append(apart(lambda: self._try(mutant, passing, session.items), seconds))  # noqa: B023
        write_source(self._file, before)
        return True

    def _with_lines(self, items: Sequence[pytest.Item]) -> dict[str, Any]:
        """Without a mutant: which lines of the file each test comes by."""
        lines = []
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        for item in items:
            self._lines = set()
            self._run([item])
            lines.append(sorted(self._lines))
            if self._failed:
                break
        sys.settrace(None)
        return {"failed": self._failed, "lines": lines}

    def _try(self, mutant: dict[str, Any], passing: list[pytest.Item], every: list[pytest.Item]) -> dict[str, Any]:
        """Those that come by the line first; a fixture of many tests and other processes come by it unseen."""
        try:
            plant(mutant["source"], str(self._file))
        except ValueError:  # a body with other names of the function around it cannot take the old one's place
            return {"failed": "", "unfit": True}
        self._run(passing)
        if not self._failed:
            self._run(every)
        return {"failed": self._failed}

    def _run(self, items: Sequence[pytest.Item]) -> None:
        for item, following in zip_longest(items, items[1:]):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                return

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        del event, argument
        return self._line if frame.f_code.co_filename == str(self._file) else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        del argument
        if event == "line":
            self._lines.add(frame.f_lineno)
        return self._line


def plant(source: str, file: str) -> None:
    """Give the functions that were loaded from `file` the bodies that `source` has for them."""
    bodies = {(code.co_qualname, code.co_firstlineno): code for code in codes_in(compile(source, file, "exec"))}
    for (
        loaded
    ) in gc.get_objects():  # some stand for others that are gone, and asking what they are an instance of fails
        if type(loaded) is FunctionType and loaded.__code__.co_filename == file:
            old = loaded.__code__
            loaded.__code__ = bodies.get((old.co_qualname, old.co_firstlineno), old)


def codes_in(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from codes_in(constant)


def apart(work: Callable[[], dict[str, Any]], seconds: float) -> dict[str, Any]:
    """The answer of a forked child, or that there was none in time; whatever it started ends with it."""
    with tempfile.NamedTemporaryFile("r") as file:
        pid = os.fork()
        if not pid:
            _be_the_child(work, Path(file.name))
        deadline = time.monotonic() + seconds
        ended = 0
        while not ended and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
            ended, _ = os.waitpid(pid, os.WNOHANG)
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        if not ended:
            os.waitpid(pid, 0)
            return {"failed": f"no end within {seconds:.0f} s"}
        text = file.read()
    return json.loads(text) if text else {"failed": "its process ended without a word"}


def _be_the_child(work: Callable[[], dict[str, Any]], answer: Path) -> None:
    """Never returns."""
    try:
        os.setsid()
        answer.write_text(json.dumps(work()))
    except BaseException as error:
        traceback.print_exc()
        answer.write_text(json.dumps({"failed": "", "error": repr(error)}))  # of the bench, not of the mutant
        raise
    finally:
        os._exit(0)


def load_and_try(question: dict[str, Any]) -> dict[str, Any]:
    """In a process of its own: load the project as its files say now, then try the mutants on its tests."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    log = os.open(question["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for name in [name for name in sys.modules if name.partition(".")[0] == "palaestra"]:
        del sys.modules[name]
    trier = Trier(Path(question["file"]).absolute(), question["mutants"])
    pytest.main([*WORDS, *question["tests"]], plugins=[trier])
    return {"failed": trier.clean["failed"], "answers": trier.answers}


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """With `file` holding `source`, where there is one, from before the project is loaded."""
    path = Path(question["file"])
    before = path.read_text()
    write_source(path, question.get("source", before))
    try:
        return apart(lambda: load_and_try(question), question["seconds"])
    finally:
        write_source(path, before)


def write_source(path: Path, text: str) -> None:
    """What was compiled goes too: Python compares seconds and sizes only, and two mutants can have both in common."""
    path.write_text(text)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink(missing_ok=True)


def main() -> int:
    for name in AHEAD:
        importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
