"""Reads arguments, imports and classes of a script from its source text, without importing or running it."""

from __future__ import annotations

import ast
import hashlib
import io
import os
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palaestra.apps.scripts.arguments import (
    Argument,
    ArgumentType,
    Mismatch,
    NotConstant,
    argparse_arguments,
    evaluate_constant,
    read_type,
)
from palaestra.core.errors import NotFound, UsageError

TYRO = "tyro"
ARGPARSE = "argparse"
NO_ARGUMENTS = ""
MAX_BYTES = 4 << 20
RUNTIME_MARK = "runtime"  # CleanRL's comments "to be filled in runtime", "computed in runtime": derived values


@dataclass(frozen=True)
class Script:
    path: Path  # absolute
    sha256: str
    style: str  # how it reads its command line: TYRO, ARGPARSE or NO_ARGUMENTS
    arguments: tuple[Argument, ...]
    imports: tuple[str, ...]  # packages of unconditional top-level imports
    classes: tuple[str, ...]
    action_spaces: tuple[str, ...] = ()  # classes of action spaces that it asserts
    wrappers: tuple[str, ...] = ()  # Gymnasium's wrappers that it uses, and imported modules of wrappers

    @property
    def settable_arguments(self) -> tuple[Argument, ...]:
        """Arguments without derived ones."""
        return tuple(argument for argument in self.arguments if not argument.is_derived)


def read_script(path: Path) -> Script:
    path = Path(os.path.expanduser(path)).absolute()  # noqa: PTH111  Path.expanduser fails for an unknown `~user`
    source = read_source(path)
    tree = _parse(source, path)
    arguments, style = _dataclass_arguments(tree, source, path.stem), TYRO
    if not arguments:
        arguments = argparse_arguments(tree, path.stem)
        style = ARGPARSE if arguments else NO_ARGUMENTS
    return Script(
        path=path,
        sha256=hashlib.sha256(source).hexdigest(),
        style=style,
        arguments=tuple(arguments),
        imports=tuple(sorted(_needed_packages(tree))),
        classes=tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef)),
        action_spaces=tuple(sorted(_action_spaces(tree))),
        wrappers=tuple(sorted(_wrappers(tree))),
    )


def read_source(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            source = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise NotFound(f"There is no script {path}.", "Give its path: script=cleanrl/ppo.py") from None
    except IsADirectoryError as error:
        hint = f"Name one script; 'palaestra cleanrl scan {path}' lists them."
        raise UsageError(f"{path} is a directory.", hint) from error
    except OSError as error:
        raise UsageError(f"The script {path} cannot be read: {error.strerror}.") from error
    if len(source) > MAX_BYTES:
        raise UsageError(f"{path} is larger than {MAX_BYTES} bytes, the limit for scripts.")
    return source


def _parse(source: bytes, path: Path) -> ast.Module:
    try:
        return ast.parse(source, filename=str(path))
    except SyntaxError as error:
        where = f"line {error.lineno}" if error.lineno else "its text"
        raise UsageError(f"{path} is not Python: {error.msg} ({where}).", "Is it the right file?") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not Python: {error}.", "Is it the right file?") from error


def _dataclass_arguments(tree: ast.Module, source: bytes, script_name: str) -> list[Argument]:
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    found = classes.get(_class_given_to_tyro(tree) or "Args")
    if found is None:
        return []
    comments = _comments(source)
    arguments: dict[str, Argument] = {}
    for node in [*_bases(found, classes), found]:
        arguments.update({one.name: one for one in _fields(node, comments, script_name)})
    return list(arguments.values())


def _class_given_to_tyro(tree: ast.Module) -> str | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "tyro.cli" and node.args:
            return ast.unparse(node.args[0])
    return None


def _bases(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> list[ast.ClassDef]:
    """Base classes in the same file, furthest first."""
    found: list[ast.ClassDef] = []
    for base in node.bases:
        near = classes.get(ast.unparse(base))
        if near is not None and near is not node and near.lineno < node.lineno:
            found += [*_bases(near, classes), near]
    return found


def _fields(owner: ast.ClassDef, comments: dict[int, str], script_name: str) -> list[Argument]:
    """A comment on a line of its own opens a section; a text under a field is its meaning."""
    section, previous_end, fields = "", owner.lineno, []
    for node, following in zip(owner.body, [*owner.body[1:], None], strict=True):
        for line in range(previous_end + 1, node.lineno):
            section = comments.get(line, section)
        previous_end = node.end_lineno or node.lineno
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        description = _text_of(following)
        is_derived = RUNTIME_MARK in section.lower() or f"computed in {RUNTIME_MARK}" in description.lower()
        fields.append(_field(node, node.target.id, description, script_name, is_derived=is_derived))
    return fields


def _field(node: ast.AnnAssign, name: str, description: str, script_name: str, *, is_derived: bool) -> Argument:
    value_type = read_type(node.annotation)
    default: Any = None
    default_text = ""
    try:
        default = None if node.value is None else evaluate_constant(node.value, script_name)
        default = default if default is None else value_type.convert(default)
    except NotConstant:
        default_text = ast.unparse(node.value) if node.value else ""
    except Mismatch:  # the default contradicts the annotation
        value_type = ArgumentType("any")
    is_known = node.value is not None and not default_text
    return Argument(
        name=name,
        flag=f"--{name.replace('_', '-')}",
        type=value_type.optional() if is_known and default is None else value_type,
        description=" ".join(description.split()),
        has_default=node.value is not None,
        is_known=is_known,
        default=default,
        default_text=default_text,
        is_derived=is_derived,
    )


def _text_of(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value.value
    return ""


def _comments(source: bytes) -> dict[int, str]:
    """Line number -> comment, for lines with nothing else."""
    tokens = tokenize.tokenize(io.BytesIO(source).readline)
    found = [token for token in tokens if token.type == tokenize.COMMENT]
    return {token.start[0]: token.string for token in found if token.line.lstrip().startswith("#")}


def _needed_packages(tree: ast.Module) -> set[str]:
    """Packages of unconditional top-level imports."""
    packages = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            packages |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            packages.add(node.module.partition(".")[0])
    return packages - {"__future__"}


def _action_spaces(tree: ast.Module) -> set[str]:
    """`assert isinstance(envs.single_action_space, gym.spaces.Discrete)`"""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Call) and len(node.test.args) == 2:
            what, kind = map(ast.unparse, node.test.args)
            if ast.unparse(node.test.func) == "isinstance" and what.endswith("action_space"):
                found.add(kind.rpartition(".")[2])
    return found


def _wrappers(tree: ast.Module) -> set[str]:
    """`gym.wrappers.ResizeObservation`, `from cleanrl_utils.atari_wrappers import NoopResetEnv`"""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("wrappers"):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").endswith("wrappers"):
            found |= {(node.module or "").rpartition(".")[2], *(alias.name for alias in node.names)}
    return found
