"""What a script's main block puts around its environments, lifted out of it as a function.

`envs = SyncVectorEnv(…)`, `envs = Normalise(envs)` becomes `def palaestra_wrap_envs(envs): envs = Normalise(envs); …`
"""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Question = Callable[[ast.expr], bool]

WRAPPING = "palaestra_wrap_envs"
VECTORS = ("VectorEnv", "make_vec")
FACTORIES = ("make_env", "make_thunk", "make_environment")  # as scripts call their own
SINGLES = ("make", *FACTORIES)
VECTOR, SINGLE = "vector", "single"


class Chain(NamedTuple):
    name: str  # of the global
    first: ast.Assign
    further: list[ast.stmt]


def vector_wrapping(tree: ast.Module) -> ast.stmt | None:
    """A function of a vector environment; None when nothing is put around it."""
    chain = _chain(tree, _makes_vector)
    if chain is None:
        return None
    first = _Without(chain.name).visit(copy.deepcopy(chain.first))
    body = [*([] if isinstance(first.value, ast.Name) else [first]), *chain.further]
    return _function(WRAPPING, chain.name, chain.name, body) if body else None


def single_env(tree: ast.Module, name: str) -> ast.stmt | None:
    """A function of that name without parameters, of a script that steps one environment."""
    chain = _chain(tree, _is_single)
    return None if chain is None else _function(name, "", chain.name, [chain.first, *chain.further])


def env_names(tree: ast.Module) -> dict[str, str]:
    """Names of the script's globals with environments: VECTOR or SINGLE."""
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
    """`make(…)`, `make_env(…)()` or `Around(make(…), …)`, and not a list of such."""
    while isinstance(node, ast.Call):
        if last_name(node.func) in SINGLES:
            return True
        node = node.args[0] if node.args and not isinstance(node.func, ast.Call) else node.func
    return False


def _chain(tree: ast.Module, is_made: Question) -> Chain | None:
    """The first global that is made in such a way, and what is put around it after that."""
    for block in _blocks(tree.body):
        for place, node in enumerate(block):
            name = _target(node)
            if isinstance(node, ast.Assign) and name and is_made(node.value):
                return Chain(name, node, [one for one in block[place + 1 :] if _wraps(one, name)])
    return None


def _blocks(body: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """What is done on the top level and in the main block, then what functions do that are not there to make one."""
    yield body
    for node in body:
        if isinstance(node, (ast.If, ast.With, ast.Try)):
            for part in ("body", "orelse", "finalbody"):
                yield from _blocks(getattr(node, part, []))
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name not in FACTORIES:
            yield from _blocks(node.body)


def _wraps(node: ast.stmt, name: str) -> bool:
    """`envs = Around(envs, …)`, also where an `if` decides about it."""
    if isinstance(node, ast.If):
        inside = [*node.body, *node.orelse]
        return all(_wraps(one, name) for one in inside)
    if _target(node) != name or not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return False
    return any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(node.value))


def _target(node: ast.stmt) -> str:
    """The one global that an assignment is to."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return ""


class _Without(ast.NodeTransformer):
    """A name in the place of the call that makes a vector environment."""

    def __init__(self, name: str) -> None:
        self._name = name

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return ast.Name(self._name, ast.Load()) if _is_vector(node) else self.generic_visit(node)


def _function(name: str, parameter: str, result: str, body: list[ast.stmt]) -> ast.stmt:
    function = ast.parse(f"def {name}({parameter}):\n    return {result}").body[0]
    assert isinstance(function, ast.FunctionDef), "that is what it says"
    function.body = [*body, *function.body]
    return function
