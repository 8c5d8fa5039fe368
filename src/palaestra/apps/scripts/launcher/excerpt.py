"""The definitions of a script without its training loop, for evaluating its networks.

Factory functions are added: the script's own statements that create its networks and environments, extracted from the
training code. They read `args`, `envs` and `device` from the module's globals, as in the script.
"""

from __future__ import annotations

import ast
import copy
import sys
import types
from importlib.abc import SourceLoader
from typing import TYPE_CHECKING, Any, NamedTuple

from .observer import ARGUMENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Predicate = Callable[[ast.expr], bool]

NAME = "palaestra_script"
ENV_MAKER = "palaestra_make_env"
IMPORTS = (ast.Import, ast.ImportFrom)
DEFINITIONS = (*IMPORTS, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
ENV_NAMES = "palaestra_env_names"  # names of the script's globals that hold environments, and their kind
PROVIDED_NAMES = {*ARGUMENTS, "device", "run_name", "writer", "envs"}  # set by `rebuild`


def load_excerpt(source: bytes, path: str, networks: dict[str, str]) -> Any:
    """A module with the definitions and factories. `networks`: names of globals with networks and their classes."""
    module = types.ModuleType(NAME)
    module.__file__ = path
    sys.modules[NAME] = module  # dataclasses look their module up
    _Loader(source, path, networks).exec_module(module)
    return module


class _Loader(SourceLoader):
    def __init__(self, source: bytes, path: str, networks: dict[str, str]) -> None:
        self._source, self._path, self._networks = source, path, networks

    def get_filename(self, fullname: str) -> str:
        del fullname
        return self._path

    def get_data(self, path: Any) -> bytes:
        """The saved source, not the file as it is now."""
        del path
        return self._source

    def source_to_code(self, data: Any, path: Any, **_options: Any) -> Any:  # type: ignore[override]
        tree = excerpt(ast.parse(data), self._networks)
        return compile(tree, str(path), "exec", dont_inherit=True)


def excerpt(tree: ast.Module, networks: dict[str, str]) -> ast.Module:
    """The module without its main block; of a script without one, imports and definitions only."""
    has_guard = any(_is_guard(node) for node in tree.body)
    statements = [node for node in tree.body if not _is_guard(node)] if has_guard else _definitions(tree.body)
    named = env_names(tree)
    known = {*PROVIDED_NAMES, *named, *(name for node in statements for name in assigned_names(node))}
    made = network_makers(tree, networks, known)
    env = _env_expression(tree)
    if env is not None:
        made.append(_function(ENV_MAKER, *env))
    lifted = (vector_wrapping(tree), single_env(tree, ENV_MAKER) if env is None else None)
    made += [function for function in lifted if function is not None]
    made += ast.parse(f"{ENV_NAMES} = {named!r}").body
    return ast.fix_missing_locations(ast.Module(body=[*statements, *made], type_ignores=[]))


def _definitions(body: list[ast.stmt]) -> list[ast.stmt]:
    """Imports and definitions, without assignments that depend on removed statements."""
    statements: list[ast.stmt] = []
    removed: set[str] = set()
    for node in body:
        if _defines(node) and not (isinstance(node, (ast.Assign, ast.AnnAssign)) and loaded_names(node) & removed):
            statements.append(node)
        else:
            removed |= stored_names(node)
    return statements


def _is_guard(node: ast.stmt) -> bool:
    if not isinstance(node, ast.If):
        return False
    names = {one.id for one in ast.walk(node.test) if isinstance(one, ast.Name)}
    return "__name__" in names


def _defines(node: ast.stmt) -> bool:
    if isinstance(node, ast.Try):
        return all(isinstance(one, (*IMPORTS, ast.Assign)) for one in node.body)
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        return not any(isinstance(one, ast.Call) for one in ast.walk(node))
    return isinstance(node, DEFINITIONS)


def _env_expression(tree: ast.Module) -> tuple[ast.expr, list[str]] | None:
    """The expression for one member of the script's vector environment, and the names of its loop variables."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not last_name(node.func).endswith("VectorEnv") or not node.args:
            continue
        members = node.args[0]
        if isinstance(members, ast.List) and members.elts and not isinstance(members.elts[0], ast.Starred):
            return members.elts[0], []
        if isinstance(members, (ast.ListComp, ast.GeneratorExp)):
            targets = [one for part in members.generators for one in ast.walk(part.target)]
            return members.elt, [one.id for one in targets if isinstance(one, ast.Name)]
    return None


def _function(name: str, expression: ast.expr, counters: list[str]) -> ast.stmt:
    """`def NAME(i=0): return EXPRESSION`"""
    signature = ", ".join(f"{counter}=0" for counter in counters)
    function = ast.parse(f"def {name}({signature}):\n    return None").body[0]
    assert isinstance(function, ast.FunctionDef), "parsed from a def"
    function.body = [ast.Return(value=expression)]
    return function


NETWORK_MAKER = "palaestra_make_network_"
BLOCKS = ("body", "orelse", "finalbody")


class Creation(NamedTuple):
    """The assignment that creates the value of a global."""

    assignment: ast.Assign
    before: list[ast.stmt]  # earlier statements of this block and of the blocks around it


def network_makers(tree: ast.Module, networks: dict[str, str], known: set[str]) -> list[ast.stmt]:
    """One factory function per network. `networks`: names of globals and their classes. `known`: defined names."""
    creations = [(name, _creation(tree, name, networks[name])) for name in networks]
    return [_maker(name, networks[name], found, known) for name, found in creations if found is not None]


def loaded_names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}


def assigned_names(node: ast.stmt) -> set[str]:
    """Names that a statement assigns, also in only one branch of an `if`."""
    if isinstance(node, (ast.If, ast.With)):
        inside = [one for block in BLOCKS for one in getattr(node, block, [])]
        return {name for one in inside for name in assigned_names(one)}
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        return set()
    return {name for target in targets if target for name in stored_names(target)}


def stored_names(node: ast.AST) -> set[str]:
    """All names stored to, at any depth."""
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}


def _creation(tree: ast.Module, name: str, class_name: str) -> Creation | None:
    """The first assignment of a call of the class, else of any call."""
    found = [one for one in _assignments(tree.body, []) if name in assigned_names(one.assignment)]
    of_class = [one for one in found if _call_of(one.assignment, class_name) is not None]
    of_any = [one for one in found if isinstance(one.assignment.value, ast.Call)]
    return next(iter([*of_class, *of_any]), None)


def _assignments(body: list[ast.stmt], before: list[ast.stmt]) -> Iterator[Creation]:
    for place, node in enumerate(body):
        reached = [*before, *body[:place]]
        if isinstance(node, ast.Assign):
            yield Creation(node, reached)
        elif not isinstance(node, ast.ClassDef):
            for block in BLOCKS:
                yield from _assignments(getattr(node, block, []), reached)


def _call_of(assignment: ast.Assign, class_name: str) -> ast.expr | None:
    """`Agent(envs)` in `agent = torch.compile(Agent(envs)).to(device)`."""
    calls = (one for one in ast.walk(assignment.value) if isinstance(one, ast.Call))
    return next((one for one in calls if last_name(one.func) == class_name), None)


def _maker(name: str, class_name: str, found: Creation, known: set[str]) -> ast.stmt:
    call = _call_of(found.assignment, class_name)
    needed = _needed_statements(found.assignment.value if call is None else call, found.before, known)
    function = ast.parse(f"def {NETWORK_MAKER}{name}():\n    return {name}").body[0]
    assert isinstance(function, ast.FunctionDef), "parsed from a def"
    own = [found.assignment, *function.body] if call is None else [ast.Return(value=call)]
    function.body = [*needed, *own]
    return function


def _needed_statements(value: ast.expr, before: list[ast.stmt], known: set[str]) -> list[ast.stmt]:
    """Earlier statements that the value depends on, directly or through other names; searched backwards."""
    wanted, statements = loaded_names(value) - known, []
    for node in reversed(before):
        made = assigned_names(node) & wanted
        if made:
            statements.append(node)
            wanted = (wanted - made if isinstance(node, ast.Assign) else wanted) | (loaded_names(node) - known)
    return statements[::-1]


WRAPPING = "palaestra_wrap_envs"
VECTORS = ("VectorEnv", "make_vec")
FACTORIES = ("make_env", "make_thunk", "make_environment")  # usual names in scripts
SINGLES = ("make", *FACTORIES)
VECTOR, SINGLE = "vector", "single"


class Chain(NamedTuple):
    name: str  # of the global
    first: ast.Assign
    further: list[ast.stmt]


def vector_wrapping(tree: ast.Module) -> ast.stmt | None:
    """A function that applies the script's wrappers of its vector environment; None without any."""
    chain = _chain(tree, _makes_vector)
    if chain is None:
        return None
    first = _ReplaceVectorCall(chain.name).visit(copy.deepcopy(chain.first))
    body = [*([] if isinstance(first.value, ast.Name) else [first]), *chain.further]
    return _as_function(WRAPPING, chain.name, chain.name, body) if body else None


def single_env(tree: ast.Module, name: str) -> ast.stmt | None:
    """A function of that name that makes the environment, for a script that steps a single one."""
    chain = _chain(tree, _is_single)
    return None if chain is None else _as_function(name, "", chain.name, [chain.first, *chain.further])


def env_names(tree: ast.Module) -> dict[str, str]:
    """Names of the script's globals that hold environments -> VECTOR or SINGLE."""
    chains = {VECTOR: _chain(tree, _makes_vector), SINGLE: _chain(tree, _is_single)}
    return {chain.name: kind for kind, chain in chains.items() if chain is not None}


def last_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _is_vector(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func).endswith(VECTORS)


def _makes_vector(value: ast.expr) -> bool:
    return any(map(_is_vector, ast.walk(value)))


def _is_single(node: ast.expr) -> bool:
    """Whether the expression is `make(…)`, `make_env(…)()` or `Wrapper(make(…), …)`, not a list of them."""
    while isinstance(node, ast.Call):
        if last_name(node.func) in SINGLES:
            return True
        node = node.args[0] if node.args and not isinstance(node.func, ast.Call) else node.func
    return False


def _chain(tree: ast.Module, is_made: Predicate) -> Chain | None:
    """The first global created in this way, and the assignments that wrap it afterwards."""
    for block in _blocks(tree.body):
        for place, node in enumerate(block):
            name = _target(node)
            if isinstance(node, ast.Assign) and name and is_made(node.value):
                return Chain(name, node, [one for one in block[place + 1 :] if _wraps(one, name)])
    return None


def _blocks(body: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """Blocks of the top level and the main block, then of functions other than environment factories."""
    yield body
    for node in body:
        if isinstance(node, (ast.If, ast.With, ast.Try)):
            for part in ("body", "orelse", "finalbody"):
                yield from _blocks(getattr(node, part, []))
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name not in FACTORIES:
            yield from _blocks(node.body)


def _wraps(node: ast.stmt, name: str) -> bool:
    """Whether the statement is `envs = Wrapper(envs, …)`, also inside an `if`."""
    if isinstance(node, ast.If):
        inside = [*node.body, *node.orelse]
        return all(_wraps(one, name) for one in inside)
    if _target(node) != name or not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return False
    return any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(node.value))


def _target(node: ast.stmt) -> str:
    """The name that a simple assignment assigns; "" for other statements."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return ""


class _ReplaceVectorCall(ast.NodeTransformer):
    """Replaces the call that makes a vector environment by a name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return ast.Name(self._name, ast.Load()) if _is_vector(node) else self.generic_visit(node)


def _as_function(name: str, parameter: str, result: str, body: list[ast.stmt]) -> ast.stmt:
    function = ast.parse(f"def {name}({parameter}):\n    return {result}").body[0]
    assert isinstance(function, ast.FunctionDef), "parsed from a def"
    function.body = [*body, *function.body]
    return function
