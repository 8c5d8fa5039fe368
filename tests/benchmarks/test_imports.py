"""Every import in a script of benchmarks/ and tools/, also one inside a function, names something that exists."""

import ast
import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(path for folder in ("benchmarks", "tools") for path in (ROOT / folder).rglob("*.py"))
OURS = ("palaestra", "tools")


def imported_names(tree):
    """Pairs of a module and a name in it; None for the module itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)


def is_missing(module_name, name):
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(OURS):
            raise  # a package that the script needs is not installed
        return True
    if name is None or hasattr(module, name):
        return False
    try:
        importlib.import_module(f"{module_name}.{name}")
    except ModuleNotFoundError:
        return True
    return False


def missing_names(source):
    found = (pair for pair in imported_names(ast.parse(source)) if pair[0].split(".")[0] in OURS)
    return [f"{module}.{name}" for module, name in found if is_missing(module, name)]


@pytest.fixture(autouse=True)
def _tools_can_be_imported(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_imported_name_exists(script):
    assert missing_names(script.read_text()) == []


@pytest.mark.parametrize(
    "line",
    [
        "from palaestra.core import nothing_of_this_name",
        "from palaestra.core.errors import Nothing",
        "import palaestra.gone",
        "def f():\n    from palaestra.gone import x",
    ],
)
def test_a_name_that_is_gone_is_found(line):
    assert len(missing_names(line)) == 1
