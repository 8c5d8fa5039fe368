"""Names use the words of the field: in src/ none of retired_words.tsv, except those listed with a reason.

In tests, benchmarks and the sources of the page their number is limited, and the limit may only fall.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parent
ROOT = TESTS.parent
PACKAGE = ROOT / "src" / "palaestra"
LIMITS = {"tests": 800, "benchmarks": 86, "examples": 9, "native": 48, "ui/src": 89}  # names with a retired word
SLACK = 60  # a limit that is this much too high must be lowered
OTHER_LANGUAGES = {".cpp", ".hpp", ".h", ".ts", ".svelte"}
DEFINITION = re.compile(
    r"\b(?:class|struct|enum|interface|function|namespace|const|let|type|void|int|bool|float|double|auto)\s+[&*]?(\w+)"
)
ENDINGS = ("s", "es", "ed", "d", "ing")


def read_table(name: str) -> dict[str, str]:
    lines = (TESTS / name).read_text().splitlines()
    return dict(line.split("\t")[:2] for line in lines if line and not line.startswith("#"))


RETIRED = read_table("retired_words.tsv")  # word -> what to use instead
EXCEPTIONS = read_table("vocabulary_exceptions.tsv")  # name -> why it stays


def retired_words_in(name: str) -> list[str]:
    if name.startswith("__"):
        return []
    parts = [part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
    found = []
    for part in parts:
        stems = [part, *(part.removesuffix(end) for end in ENDINGS if part.endswith(end) and len(part) > len(end) + 2)]
        found += [stem for stem in stems if stem in RETIRED][:1]
    return found


def names_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Classes, functions, parameters, annotated names and attributes that are assigned."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield node.lineno, name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


def all_names() -> Iterator[tuple[str, str]]:
    """(place, name) of every name in the package, names of modules included."""
    for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")]):
        place = path.relative_to(PACKAGE).as_posix()
        yield place, path.stem
        for line, name in names_in(ast.parse(path.read_text())):
            yield f"{place}:{line}", name


def count_retired(folder: str) -> int:
    """Names with a retired word under a folder: Python by its syntax tree, other languages by their definitions."""
    count = 0
    for path in sorted((ROOT / folder).rglob("*")):
        if path.suffix not in {".py", ".pyi", *OTHER_LANGUAGES} or "node_modules" in path.parts:
            continue
        text = path.read_text()
        names = (
            DEFINITION.findall(text) if path.suffix in OTHER_LANGUAGES else [n for _, n in names_in(ast.parse(text))]
        )
        count += sum(bool(retired_words_in(name)) for name in (path.stem, *names))
    return count


@pytest.mark.parametrize(("folder", "limit"), LIMITS.items())
def test_fewer_and_fewer_names_elsewhere_use_a_retired_word(folder, limit):
    count = count_retired(folder)
    assert count <= limit, "see retired_words.tsv for words to use instead"
    assert count > limit - SLACK, f"lower the limit of {folder} to {count}"


def test_no_name_uses_a_retired_word():
    found = {
        f"{place} {name}": ", ".join(RETIRED[word] for word in retired_words_in(name))
        for place, name in all_names()
        if name not in EXCEPTIONS and retired_words_in(name)
    }
    assert found == {}, "name -> words to use instead; an exception needs a reason in vocabulary_exceptions.tsv"


def test_every_exception_is_still_needed_and_has_a_reason():
    names = {name for _, name in all_names()}
    assert [name for name in EXCEPTIONS if name not in names or not retired_words_in(name)] == []
    assert [name for name, reason in EXCEPTIONS.items() if len(reason.split()) < 3] == []


@pytest.mark.parametrize("name", ["Doorplate", "told_at", "_dice", "count_judgements", "asked"])
def test_retired_words_are_found_in_every_form(name):
    assert retired_words_in(name)


@pytest.mark.parametrize("name", ["rollout_buffer", "evaluate", "TrainingState", "env_steps", "__lookup__"])
def test_other_names_are_left_alone(name):
    assert retired_words_in(name) == []
