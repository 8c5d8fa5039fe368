"""Where mutants are tried: a process in a copy of the project that has torch and pytest already, and forks for each.

    python -m tools.reliability.mutation_worker      (one question as JSON a line, one answer a line)

A mutant within a function is put into what was loaded, after pytest has found its tests: a try costs a fork and the
tests that come by the line, quickest first, then those that start processes. One elsewhere is there before anything of
Palaestra is loaded, which costs seconds. Either way it stands in the file too, for the processes that tests start.
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
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
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
WORDS += ["-m", "not chaos and not full and not machines and not slow"]
LOOK_SECONDS = 0.005
MOST_SECONDS = 300.0  # for one test without a mutant
LEAST_SECONDS, TIMES_LONGER = 10.0, 5.0  # a try that takes longer than the clean one by so much goes on for ever


@dataclass(frozen=True)
class Watched:
    """What a test did without a mutant."""

    name: str
    seconds: float
    lines: list[int]  # of the file that it came by, in this process
    is_far: bool  # it started other processes, which come by lines that nobody sees


class Trier:
    """Pytest's side: when the tests are found, each mutant is tried in a fork on those that can see it."""

    def __init__(self, file: Path, mutants: Sequence[dict[str, Any]], order: Sequence[str] = ()) -> None:
        self.clean: dict[str, Any] = {"failed": "the tests could not be loaded"}
        self.answers: list[dict[str, Any]] = []
        self.order = list(order)  # of the tests by their names
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
        if not self._mutants:  # what is to be tried stands in the file already
            places = {name: place for place, name in enumerate(self.order)}
            items = sorted(session.items, key=lambda item: places.get(item.nodeid, len(places)))
            self.clean = {"failed": self._run(items)}
            return True
        before, functions = self._file.read_text(), functions_of(str(self._file))
        gc.freeze()  # or each fork would copy what its collector marks
        watched = self._watch_all(session.items)
        if watched:
            for mutant in self._mutants:
                write_source(self._file, mutant["source"])
                self.answers.append(self._try_apart(mutant, functions, watched))
        write_source(self._file, before)
        return True

    def _watch_all(self, items: Sequence[pytest.Item]) -> list[tuple[Watched, pytest.Item]]:
        """Quickest first. Each in a fork of its own: what one has put into a cache, the next would not come by."""
        watched = []
        for item in items:
            self.clean = apart(lambda: self._watch(item), MOST_SECONDS)  # noqa: B023
            if self.clean["failed"]:
                return []
            watched.append((Watched(**self.clean["seen"]), item))
        watched.sort(key=lambda pair: pair[0].seconds)
        self.order = [seen.name for seen, _ in watched]
        return watched

    def _watch(self, item: pytest.Item) -> dict[str, Any]:
        """Without a mutant."""
        began = time.monotonic()
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        self._run([item])
        sys.settrace(None)
        has_children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss > 0
        seen = Watched(item.nodeid, time.monotonic() - began, sorted(self._lines), is_far=has_children)
        return {"failed": self._failed, "seen": asdict(seen)}

    def _try_apart(
        self,
        mutant: dict[str, Any],
        functions: Sequence[FunctionType],
        watched: Sequence[tuple[Watched, pytest.Item]],
    ) -> dict[str, Any]:
        chosen = [pair for pair in watched if mutant["line"] in pair[0].lines]
        chosen += [pair for pair in watched if mutant["line"] not in pair[0].lines and pair[0].is_far]
        seconds = LEAST_SECONDS + TIMES_LONGER * sum(seen.seconds for seen, _ in chosen)
        return apart(lambda: self._try(mutant, functions, [item for _, item in chosen]), seconds)

    def _try(
        self, mutant: dict[str, Any], functions: Sequence[FunctionType], items: Sequence[pytest.Item]
    ) -> dict[str, Any]:
        try:
            plant(mutant["source"], str(self._file), functions)
        except ValueError:  # a body with other names of the function around it cannot take the old one's place
            return {"failed": "", "unfit": True}
        return {"failed": self._run(items)}

    def _run(self, items: Sequence[pytest.Item]) -> str:
        """The first test that fails, which ends the round."""
        for item, following in zip_longest(items, items[1:]):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                break
        return self._failed

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        del event, argument
        return self._line if frame.f_code.co_filename == str(self._file) else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        del argument
        if event == "line":
            self._lines.add(frame.f_lineno)
        return self._line


def functions_of(file: str) -> list[FunctionType]:
    """All that were loaded from `file`. (Not isinstance: some objects stand for others that are gone.)"""
    return [
        loaded for loaded in gc.get_objects() if type(loaded) is FunctionType and loaded.__code__.co_filename == file
    ]


def plant(source: str, file: str, functions: Sequence[FunctionType]) -> None:
    """Give functions that were loaded from `file` the bodies that `source` has for them."""
    bodies = {(code.co_qualname, code.co_firstlineno): code for code in codes_in(compile(source, file, "exec"))}
    for function in functions:
        old = function.__code__
        function.__code__ = bodies.get((old.co_qualname, old.co_firstlineno), old)


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
    trier = Trier(Path(question["file"]).absolute(), question["mutants"], question.get("order", ()))
    own = f"--basetemp={Path(question['log']).parent / 'tmp'}"  # emptied by each try; pytest's own would fill the disk
    pytest.main([*WORDS, own, *question["tests"]], plugins=[trier])
    return {"failed": trier.clean["failed"], "answers": trier.answers, "order": trier.order}


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
    for plugin in entry_points(group="pytest11"):
        plugin.load()
    gc.freeze()  # pytest collects garbage several times a round, and none of it is here
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
