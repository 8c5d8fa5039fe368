"""The definitions of a script, without what it does: when a network of it plays, nothing is trained.

Beside them stand makers: the script's own words for "make a network" and "make an environment", lifted out of what it
does, as functions. They find `args`, `envs` and `device` where the script has them, among its globals.
"""

from __future__ import annotations

import ast
import sys
import types
from importlib.abc import SourceLoader
from typing import Any

from .names import ARGUMENTS
from .network_makers import assigned_names, loaded_names, network_makers, stored_names
from .wrapping import env_names, last_name, single_env, vector_wrapping

NAME = "palaestra_script"
ENV_MAKER = "palaestra_make_env"
IMPORTS = (ast.Import, ast.ImportFrom)
DEFINITIONS = (*IMPORTS, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
ENV_NAMES = "palaestra_env_names"  # of the script's globals with environments, and which kind each is
SCENE = {*ARGUMENTS, "device", "run_name", "writer", "envs"}  # set by building.set_scene and set_environments


def load_excerpt(source: bytes, path: str, networks: dict[str, str]) -> Any:
    """A module with the definitions and makers; `networks`: names of globals and the classes of what is in them."""
    module = types.ModuleType(NAME)
    module.__file__ = path
    sys.modules[NAME] = module  # a dataclass looks for the module that it is defined in
    _Loader(source, path, networks).exec_module(module)
    return module


class _Loader(SourceLoader):
    def __init__(self, source: bytes, path: str, networks: dict[str, str]) -> None:
        self._source, self._path, self._networks = source, path, networks

    def get_filename(self, fullname: str) -> str:
        del fullname
        return self._path

    def get_data(self, path: Any) -> bytes:
        """Never what lies there now: the source that was saved."""
        del path
        return self._source

    def source_to_code(self, data: Any, path: Any, **_options: Any) -> Any:  # type: ignore[override]
        tree = excerpt(ast.parse(data), self._networks)
        return compile(tree, str(path), "exec", dont_inherit=True)


def excerpt(tree: ast.Module, networks: dict[str, str]) -> ast.Module:
    """Without its main block; a script without one is left with its imports and definitions alone."""
    has_guard = any(_is_guard(node) for node in tree.body)
    kept = [node for node in tree.body if not _is_guard(node)] if has_guard else _definitions(tree.body)
    named = env_names(tree)
    known = {*SCENE, *named, *(name for node in kept for name in assigned_names(node))}
    made = network_makers(tree, networks, known)
    env = _env_expression(tree)
    if env is not None:
        made.append(_function(ENV_MAKER, *env))
    lifted = (vector_wrapping(tree), single_env(tree, ENV_MAKER) if env is None else None)
    made += [function for function in lifted if function is not None]
    made += ast.parse(f"{ENV_NAMES} = {named!r}").body
    return ast.fix_missing_locations(ast.Module(body=[*kept, *made], type_ignores=[]))


def _definitions(body: list[ast.stmt]) -> list[ast.stmt]:
    """Without assignments that need something that is left out."""
    kept: list[ast.stmt] = []
    left_out: set[str] = set()
    for node in body:
        if _defines(node) and not (isinstance(node, (ast.Assign, ast.AnnAssign)) and loaded_names(node) & left_out):
            kept.append(node)
        else:
            left_out |= stored_names(node)
    return kept


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
    """What the script gives to its vector environment for each member, and the names that count the members."""
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
    assert isinstance(function, ast.FunctionDef), "that is what it says"
    function.body = [ast.Return(value=expression)]
    return function
