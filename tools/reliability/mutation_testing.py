"""How much the tests see: small defects are planted one by one, and the unit tests of the file must notice each.

    python -m tools.reliability.mutation_testing checkpoints/sidecar web/security/tokens
    python -m tools.reliability.mutation_testing                        (all of TARGETS)

Survivors that make no difference are judged in tests/mutants.json, by the line that they stand in; leaves with 1 when
another survives in more than one of ten cases, or a judgement is about a line that is there no longer.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import NotFound, PalaestraError, RunFailed, did_you_mean
from tools.reliability.mutation_copy import ProjectCopy
from tools.reliability.mutations import Mutant, mutants_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROGRAM = "python -m tools.reliability.mutation_testing"
CHECKOUT = Path(__file__).parents[2]
ACCEPTED_FILE = "tests/mutants.json"
WANTED = 0.9  # of the mutants that make a difference
LEAST_SECONDS = 60.0  # for a try that loads everything anew

# Files whose defects would lose work or let somebody in, and tests that hold them beside the mirrored ones.
TARGETS: dict[str, tuple[str, ...]] = {
    "checkpoints/durable": ("checkpoints/test_store.py", "checkpoints/test_power_loss.py"),
    "checkpoints/sidecar": ("checkpoints/test_selection.py",),
    "checkpoints/files": ("checkpoints/test_selection.py",),
    "checkpoints/retention": ("checkpoints/test_store.py",),
    "checkpoints/safetensors_header": ("checkpoints/test_weights.py",),
    "checkpoints/selection": ("checkpoints/test_store.py",),
    "checkpoints/store": (),
    "checkpoints/manager": (),
    "checkpoints/restore": ("checkpoints/test_loading.py",),
    "checkpoints/weights": ("checkpoints/test_store.py",),
    "web/security/authentication": ("web/test_app.py",),
    "web/security/tokens": ("web/security/test_authentication.py",),
    "web/security/headers": ("web/security/test_authentication.py",),
    "web/security/login": ("web/security/test_authentication.py",),
    "web/security/origin": (),
    "web/security/limits": (),
    "web/resources/run_files": (),
    "web/files": ("web/resources/test_run_files.py",),
    "web/request_parsing": (),
    "web/resources/checkpoint_zip": (),
    "runs/status": (),
    "runs/lock": (),
    "runs/files": (),
    "runs/journal": (),
    "core/run": ("runs/test_status.py",),
    "training/state": (),
}


@dataclass(frozen=True)
class Result:
    target: str
    mutant: Mutant
    killed_by: str  # the first test that failed; empty: it lives
    reason: str = ""  # why a living one makes no difference

    @property
    def is_open(self) -> bool:
        return not self.killed_by and not self.reason


@dataclass(frozen=True)
class AcceptedMutant:
    """Why a mutant makes no difference. It is about a line as it is written, wherever that line stands."""

    target: str
    line: str
    change: str
    why: str


def read_accepted_mutants(path: Path) -> tuple[AcceptedMutant, ...]:
    return tuple(AcceptedMutant(**entry) for entry in json.loads(path.read_text())) if path.exists() else ()


def stale(judgements: Sequence[AcceptedMutant], checkout: Path) -> list[AcceptedMutant]:
    """Those about a line or a change that is not to be had any longer."""
    there: dict[str, set[tuple[str, str]]] = {}
    for target in {judgement.target for judgement in judgements}:
        path = checkout / source_of(target)
        found = mutants_of(path.read_text()) if path.is_file() else ()
        there[target] = {(mutant.text, mutant.change) for mutant in found}
    return [one for one in judgements if (one.line, one.change) not in there[one.target]]


def source_of(target: str) -> str:
    return f"src/palaestra/{target}.py"


def tests_of(target: str) -> list[str]:
    """The mirrored test file first: it is the one that should see everything."""
    room, _, name = target.rpartition("/")
    return [f"tests/{room}/test_{name}.py", *(f"tests/{more}" for more in TARGETS.get(target, ()))]


def choose(words: Sequence[str]) -> list[str]:
    for word in words:
        if word not in TARGETS:
            known = f"Known are {', '.join(TARGETS)}."
            raise NotFound(f"No mutants are made of '{word}'.", did_you_mean(word, TARGETS) or known)
    return list(words) or list(TARGETS)


def try_target(copy: ProjectCopy, target: str, judgements: Sequence[AcceptedMutant]) -> list[Result]:
    """Every mutant of a file, against the tests that are for the file."""
    file, tests = source_of(target), tests_of(target)
    mutants = mutants_of((copy.folder / file).read_text())
    inner = [mutant for mutant in mutants if mutant.is_inner]
    began = time.monotonic()
    found = _sound(copy.ask(file, tests, mutants=inner))
    if found["failed"]:
        last = copy.log.read_text(errors="replace")[-2000:]
        raise RunFailed(f"Without any mutant, {found['failed']} fails.", last)
    tried = zip(inner, found["answers"], strict=True)
    killers = {mutant.source: each["failed"] for mutant, each in tried if "unfit" not in _sound(each)}
    seconds = time.monotonic() - began + LEAST_SECONDS  # more than one load and one run of all tests
    for mutant in mutants:
        if mutant.source not in killers:
            asked = copy.ask(file, tests, source=mutant.source, order=found["order"], seconds=seconds)
            killers[mutant.source] = _sound(asked)["failed"]
    reasons = {(one.line, one.change): one.why for one in judgements if one.target == target}
    return [
        Result(target, mutant, killed_by, "" if killed_by else reasons.get((mutant.text, mutant.change), ""))
        for mutant, killed_by in ((mutant, killers[mutant.source]) for mutant in mutants)
    ]


def _sound(answer: dict[str, Any]) -> dict[str, Any]:
    """An error of the bench is neither a mutant that was seen nor one that lives."""
    if "error" in answer:
        raise RunFailed(f"The bench itself failed: {answer['error']}")
    return answer


def counts(results: Sequence[Result]) -> dict[str, Any]:
    """`share` is of the mutants that make a difference."""
    killed = sum(bool(result.killed_by) for result in results)
    accepted = sum(bool(result.reason) for result in results)
    differing = len(results) - accepted
    share = killed / differing if differing else 1.0
    return {"mutants": len(results), "killed": killed, "harmless": accepted, "share": round(share, 4)}


def rows(results: Sequence[Result]) -> dict[str, dict[str, Any]]:
    targets = dict.fromkeys(result.target for result in results)
    return {target: counts([result for result in results if result.target == target]) for target in targets}


def table(results: Sequence[Result]) -> str:
    lines = [f"{'file':<32}{'mutants':>8}{'killed':>8}{'harmless':>10}{'share':>8}"]
    for name, row in {**rows(results), "all": counts(results)}.items():
        numbers = f"{row['mutants']:>8}{row['killed']:>8}{row['harmless']:>10}"
        lines.append(f"{name:<32}{numbers}{row['share']:>8.1%}")
    return "\n".join(lines)


def record_data(result: Result) -> dict[str, Any]:
    mutant = result.mutant
    return {
        "target": result.target,
        "line": mutant.line,
        "text": mutant.text,
        "change": mutant.change,
        "killed_by": result.killed_by,
        "reason": result.reason,
    }


def bench(words: Sequence[str], checkout: Path, target_file: Path, at_once: int = 1) -> bool:
    targets = choose(words)
    judgements = [one for one in read_accepted_mutants(checkout / ACCEPTED_FILE) if one.target in targets]
    if gone := stale(judgements, checkout):
        raise RunFailed(
            f"{ACCEPTED_FILE} names code that no longer exists: {gone[0].target}: {gone[0].line}: {gone[0].change}"
        )
    results: list[Result] = []
    for tried in _tried(targets, judgements, checkout, at_once):
        results += tried
        for result in filter(lambda one: one.is_open, tried):
            mutant = result.mutant
            print(f"{result.target}:{mutant.line}: lives: {mutant.change}", file=sys.stderr, flush=True)
        print(f"{tried[0].target}: {counts(tried)}", file=sys.stderr, flush=True)
        _keep(results, target_file)
    print(table(results))
    return all(row["share"] >= WANTED for row in rows(results).values())


def _tried(
    targets: Sequence[str], judgements: Sequence[AcceptedMutant], checkout: Path, at_once: int
) -> Iterator[list[Result]]:
    """A file at a time for each of `at_once` copies; those that are through first come first."""
    with ExitStack() as open_copies, ThreadPoolExecutor(at_once) as threads:
        free: SimpleQueue[ProjectCopy] = SimpleQueue()
        for _ in range(min(at_once, len(targets))):
            free.put(open_copies.enter_context(ProjectCopy(checkout)))

        def in_a_free_copy(target: str) -> list[Result]:
            copy = free.get()
            try:
                return try_target(copy, target, judgements)
            finally:
                free.put(copy)

        for done in as_completed([threads.submit(in_a_free_copy, target) for target in targets]):
            yield done.result()


def _keep(results: Sequence[Result], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    kept = {"summary": rows(results), "mutants": [record_data(result) for result in results]}
    file.write_text(json.dumps(kept, indent=1) + "\n")


def main(words: list[str] | None = None, checkout: Path = CHECKOUT) -> int:
    parser = argparse.ArgumentParser(
        "python -m tools.reliability.mutation_testing", description="What do the tests see?"
    )
    parser.add_argument("targets", nargs="*", help="as checkpoints/sidecar; default: all")
    parser.add_argument("--json", type=Path, default=None, help="default build/mutants.json in the checkout")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="files side by side, each in its copy")
    chosen = parser.parse_args(words)
    kept = chosen.json or checkout / "build" / "mutants.json"
    try:
        return 0 if bench(chosen.targets, checkout, kept, max(chosen.at_once, 1)) else 1
    except PalaestraError as error:
        print(error, file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
