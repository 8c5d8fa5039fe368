"""The plan of the house, held by machine: layers, mirrored tests, sizes, and what must never be written."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "palaestra"
SOURCES = sorted(PACKAGE.rglob("*.py"))

MAX_FILE_LINES = 450
MAX_FUNCTION_LINES = 75

WITHOUT_A_TEST = {"__init__.py"}  # they hold a sentence at most; see the test of that

# Everything else imports at the top of the file. These wait, so that --help answers at once and torch is loaded last.
IMPORTS_LATE = {
    "__init__.py",
    "api.py",
    "cli/analyze.py",
    "cli/doctor.py",
    "cli/eval.py",
    "cli/checkpoints.py",
    "cli/main.py",
    "cli/output.py",
    "cli/play.py",
    "cli/policies.py",
    "cli/request_eval.py",
    "cli/video.py",
}
# Loggers and the live view are luxuries: what they raise is named and dropped. Nobody else may do so.
SWALLOWS = {"envs/vector/worker.py", "rendering/live_view.py", "loggers/fanout.py"}
TORCH_FILES_ONLY_IN = "checkpoints/"
RUN_PATHS_ONLY_IN = "runs/"

RUN_FILES = {
    "request.yaml",
    "config.yaml",
    "environment.json",
    "journal.jsonl",
    "metrics.db",
    "metrics.csv",
    "status.json",
    "manifest.json",
    "eval_summary.json",
    "tensorboard_eval",
    "by-name",
}
UNSAFE_CALLS = {
    "eval",
    "exec",
    "__import__",
    "os.system",
    "os.popen",
    "yaml.load",
    "yaml.unsafe_load",
    "torch.export.load",
    "torch.jit.load",
    "SharedMemory",
    "shared_memory.SharedMemory",
}
PICKLE_NAMES = {"pickle.UnpicklingError", "pickle.PicklingError"}  # an error may be caught, nothing else is touched
UNSAFE_MODULES = {"cloudpickle", "dill", "joblib", "shelve", "marshal", "torch.distributed.checkpoint"}


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def tree_of(path: Path) -> ast.AST:
    return ast.parse(path.read_text())


def found_in(sources: Iterable[Path], look: Callable[[Path], list[str]]) -> dict[str, list[str]]:
    """What is wrong, by file: a rule is one test over the whole house, and names every file that breaks it."""
    return {name_of(path): found for path in sources if (found := look(path))}


def unsafe_things(tree: ast.AST, place: str) -> Iterator[str]:
    """What must not be written anywhere in the package, as `line: what`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from (f"{node.lineno}: {what}" for what in _unsafe_call(node, place))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (f"{node.lineno}: import of {name}" for name in _unsafe_imports(node))
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pickle":
            if ast.unparse(node) not in PICKLE_NAMES:
                yield f"{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Constant) and node.value in RUN_FILES and not place.startswith(RUN_PATHS_ONLY_IN):
            yield f"{node.lineno}: the run path {node.value!r} outside of {RUN_PATHS_ONLY_IN}"


def _unsafe_imports(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module] if node.module in {"pickle", *UNSAFE_MODULES} else []
    renamed = [alias.name for alias in node.names if alias.name == "pickle" and alias.asname]
    return renamed + [alias.name for alias in node.names if alias.name in UNSAFE_MODULES]


def _unsafe_call(call: ast.Call, place: str) -> Iterator[str]:
    function = ast.unparse(call.func)
    keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    if function in UNSAFE_CALLS or function.endswith(".extractall"):
        yield function
    if keywords.get("shell", "False") != "False":
        yield "shell="
    if keywords.get("weights_only", "True") != "True" or keywords.get("allow_pickle", "False") != "False":
        yield "a load that may run code"
    if function in {"torch.load", "torch.save"} and not place.startswith(TORCH_FILES_ONLY_IN):
        yield f"{function} outside of {TORCH_FILES_ONLY_IN}"
    if function == "torch.load" and keywords.get("weights_only") != "True":
        yield "torch.load without weights_only=True"


def late_imports(tree: ast.AST) -> list[str]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inner = {node for function in functions for node in ast.walk(function)}
    return [f"{node.lineno}: {ast.unparse(node)}" for node in inner if isinstance(node, ast.Import | ast.ImportFrom)]


def swallowed_errors(tree: ast.AST) -> list[str]:
    """Handlers of everything that do not raise again."""
    return [
        f"{node.lineno}: except {ast.unparse(node.type) if node.type else ''}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in {"Exception", "BaseException"})
        and not any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
    ]


def long_functions(tree: ast.AST, limit: int) -> list[str]:
    return [
        f"{node.lineno}: {node.name} has {length} lines"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > limit
    ]


def test_imports_go_down_only():
    linter = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "4 kept, 0 broken" in result.stdout


def what_its_mirror_lacks(source: Path) -> list[str]:
    mirror = ROOT / "tests" / source.relative_to(PACKAGE).with_name(f"test_{source.name}")
    if not mirror.exists():
        return [f"{mirror.relative_to(ROOT)} is not there"]
    has_a_test = re.search(r"^ *(async )?def test_", mirror.read_text(), re.MULTILINE)
    return [] if has_a_test else [f"{mirror.relative_to(ROOT)} tests nothing"]


def test_every_file_has_its_mirrored_test():
    assert found_in((path for path in SOURCES if path.name not in WITHOUT_A_TEST), what_its_mirror_lacks) == {}


def test_files_without_a_test_hold_next_to_nothing():
    big = [name_of(path) for path in SOURCES if path.name in WITHOUT_A_TEST and len(path.read_text().splitlines()) > 40]
    assert big == []


def test_files_and_functions_stay_small():
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: length for name, length in lengths.items() if length > MAX_FILE_LINES} == {}
    assert found_in(SOURCES, lambda path: long_functions(tree_of(path), MAX_FUNCTION_LINES)) == {}


@pytest.mark.fault("X2")
def test_nothing_that_a_file_says_is_executed_and_every_path_has_its_room():
    assert found_in(SOURCES, lambda path: list(unsafe_things(tree_of(path), name_of(path)))) == {}


def test_imports_stand_at_the_top():
    prompt = (path for path in SOURCES if name_of(path) not in IMPORTS_LATE)
    assert found_in(prompt, lambda path: late_imports(tree_of(path))) == {}


def test_no_error_is_swallowed_whole():
    strict = (path for path in SOURCES if name_of(path) not in SWALLOWS)
    assert found_in(strict, lambda path: swallowed_errors(tree_of(path))) == {}


def test_the_lists_of_exceptions_name_files_that_exist_and_need_them():
    for name in IMPORTS_LATE - {"__init__.py"}:
        assert late_imports(tree_of(PACKAGE / name)), f"{name} need not be in IMPORTS_LATE"
    for name in SWALLOWS:
        assert swallowed_errors(tree_of(PACKAGE / name)), f"{name} need not be in SWALLOWS"


@pytest.mark.fault("X2")
@pytest.mark.parametrize(
    "planted",
    [
        "pickle.load(stream)",
        "pickle.loads(data)",
        "pickle.Unpickler(stream).load()",
        "import pickle as harmless",
        "from pickle import loads",
        "import cloudpickle as harmless",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "torch.load(path, weights_only=trusted)",
        "torch.save(state, path)",
        "numpy.load(path, allow_pickle=True)",
        "yaml.load(text)",
        "eval(text)",
        "exec(text)",
        "subprocess.run(words, shell=True)",
        "archive.extractall(target)",
        "path / 'metrics.db'",
        "SharedMemory('frames')",
    ],
)
def test_the_scan_sees_what_it_is_for(planted):
    assert list(unsafe_things(ast.parse(planted), "training/planted.py"))


def test_the_scan_sees_late_imports_swallowed_errors_and_long_functions():
    assert late_imports(ast.parse("def f():\n    import torch"))
    assert swallowed_errors(ast.parse("try:\n    f()\nexcept Exception:\n    pass"))
    assert swallowed_errors(ast.parse("try:\n    f()\nexcept:\n    pass"))
    assert not swallowed_errors(ast.parse("try:\n    f()\nexcept BaseException:\n    raise"))
    assert long_functions(ast.parse("def f():\n" + "    pass\n" * MAX_FUNCTION_LINES), MAX_FUNCTION_LINES)
