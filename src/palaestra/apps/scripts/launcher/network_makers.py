"""Functions that make a script's networks again, cut out of what the script does.

`agent = Agent(args, shape).to(device)` becomes `def palaestra_make_network_agent(): shape = …; return Agent(…)`: the
call and the statements before it that assign what the call needs.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from .wrapping import last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

NETWORK_MAKER = "palaestra_make_network_"
BLOCKS = ("body", "orelse", "finalbody")


class Creation(NamedTuple):
    """Where a global gets its value first."""

    assignment: ast.Assign
    before: list[ast.stmt]  # statements that were executed until then, of this block and of those around it


def network_makers(tree: ast.Module, networks: dict[str, str], known: set[str]) -> list[ast.stmt]:
    """`networks`: names of globals and the classes of what is in them. `known`: names that need no statement."""
    creations = [(name, _creation(tree, name, networks[name])) for name in networks]
    return [_maker(name, networks[name], found, known) for name, found in creations if found is not None]


def loaded_names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}


def assigned_names(node: ast.stmt) -> set[str]:
    """Also those that only one branch of an `if` assigns."""
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
    """Everywhere in it."""
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}


def _creation(tree: ast.Module, name: str, class_name: str) -> Creation | None:
    """The first assignment of a call of that class, else the first one of any call."""
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
    """`agent = torch.compile(Agent(envs)).to(device)`: of that `Agent(envs)`."""
    calls = (one for one in ast.walk(assignment.value) if isinstance(one, ast.Call))
    return next((one for one in calls if last_name(one.func) == class_name), None)


def _maker(name: str, class_name: str, found: Creation, known: set[str]) -> ast.stmt:
    call = _call_of(found.assignment, class_name)
    needed = _needed_statements(found.assignment.value if call is None else call, found.before, known)
    function = ast.parse(f"def {NETWORK_MAKER}{name}():\n    return {name}").body[0]
    assert isinstance(function, ast.FunctionDef), "that is what it says"
    own = [found.assignment, *function.body] if call is None else [ast.Return(value=call)]
    function.body = [*needed, *own]
    return function


def _needed_statements(value: ast.expr, before: list[ast.stmt], known: set[str]) -> list[ast.stmt]:
    """Backwards: what assigns a name that is wanted is kept, and then what that needs is wanted too."""
    wanted, kept = loaded_names(value) - known, []
    for node in reversed(before):
        made = assigned_names(node) & wanted
        if made:
            kept.append(node)
            wanted = (wanted - made if isinstance(node, ast.Assign) else wanted) | (loaded_names(node) - known)
    return kept[::-1]
