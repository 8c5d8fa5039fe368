"""Tracebacks of code that the user brought (an environment, a policy, a plugin), shortened to the user's own frames."""

from __future__ import annotations

import sysconfig
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from traceback import FrameSummary, StackSummary, TracebackException, extract_tb
from typing import TYPE_CHECKING, TypeVar

from palaestra.core.errors import PalaestraError, RunFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OWN_PACKAGE = f"{Path(__file__).parents[1]}/"
MAX_TEXT = 8000  # characters of a shortened traceback; its end says what was raised

SomeError = TypeVar("SomeError", bound=PalaestraError)


def with_user_traceback(failure: SomeError, error: BaseException) -> SomeError:
    """`failure`, which also carries the shortened traceback of `error`; nothing where only our own code ran."""
    if not all(_is_ours(frame) for frame in _after_caller(extract_tb(error.__traceback__))):
        failure.user_traceback = shorten_traceback(error)
    return failure


def describe_error(error: BaseException, where: str = "") -> str:
    """`raised KeyError at step 3: 'a'`, or `called sys.exit(3) at step 3`; `where` stands in the middle."""
    place = f" {where}" if where else ""
    if isinstance(error, SystemExit):
        return f"called sys.exit({'' if error.code is None else repr(error.code)}){place}"
    text = f"{error}".strip().removesuffix(".")
    return f"raised {type(error).__name__}{place}" + (f": {text}" if text else "")


def user_code_failure(error: BaseException) -> RunFailed | None:
    """What to report for an error that came out of the user's code; None when only our own or libraries' code ran."""
    frames = _user_frames(_after_caller(extract_tb(error.__traceback__)))
    if isinstance(error, PalaestraError) or not (frames or _is_users_syntax(error)):
        return None
    where = f" ({frames[-1].filename}, line {frames[-1].lineno}, in {frames[-1].name})" if frames else ""
    return with_user_traceback(RunFailed(f"Your code {describe_error(error)}{where}."), error)


def _is_users_syntax(error: BaseException) -> bool:
    """A file that cannot even be read has no frame of its own."""
    return isinstance(error, SyntaxError) and error.filename is not None and not _is_library(error.filename)


@contextmanager
def user_errors_reported() -> Iterator[None]:
    """What the user's code raises in the block, or its `sys.exit`, becomes a RunFailed; our own defects stay."""
    try:
        yield
    except (Exception, SystemExit) as error:
        failure = user_code_failure(error)
        if failure is None:
            raise
        raise failure from error


def has_user_frames(error: BaseException) -> bool:
    return bool(_user_frames(_after_caller(extract_tb(error.__traceback__))))


def shorten_traceback(error: BaseException) -> str:
    """The traceback without frames of Palaestra, PyTorch and other libraries."""
    formatted = TracebackException.from_exception(error)
    _shorten(formatted, set())
    text = _printable("".join(formatted.format()).rstrip("\n"))
    return text if len(text) <= MAX_TEXT else f"[…]\n{text[-MAX_TEXT:]}"


def shorten_stack(stack: StackSummary) -> str:
    """The user's frames of a stack that is still running, the newest last."""
    return _printable("".join(_shortened(stack).format()).rstrip("\n"))


def _printable(text: str) -> str:
    """What an error's text smuggles in must not reach a terminal as a command."""
    return "".join(letter if letter.isprintable() or letter == "\n" else repr(letter)[1:-1] for letter in text)


def _shorten(formatted: TracebackException, visited: set[int]) -> None:
    if id(formatted) in visited:
        return
    visited.add(id(formatted))
    is_syntax = formatted.exc_type is not None and issubclass(formatted.exc_type, SyntaxError)
    formatted.stack = StackSummary() if is_syntax else _shortened(formatted.stack)  # its own text says file and line
    for other in (formatted.__cause__, formatted.__context__, *(formatted.exceptions or ())):
        if other is not None:
            _shorten(other, visited)


def _shortened(stack: StackSummary) -> StackSummary:
    """The user's frames and the one that raised; what a library called where there is no user's; else all."""
    inner = _after_caller(stack)
    own = _user_frames(inner)
    if own:
        last = inner[-1]
        kept = own if last is own[-1] or _is_ours(last) else [*own, last]
    else:
        last_own = max((number for number, frame in enumerate(stack) if _is_ours(frame)), default=-1)
        kept = list(stack[last_own + 1 :]) or list(stack)
    return StackSummary.from_list(kept)


def _after_caller(stack: Sequence[FrameSummary]) -> list[FrameSummary]:
    """Without the program that called us, which is the user's too but did not raise."""
    first_own = next((number for number, frame in enumerate(stack) if _is_ours(frame)), 0)
    return list(stack[first_own:])


def _user_frames(stack: Sequence[FrameSummary]) -> list[FrameSummary]:
    return [frame for frame in stack if not _is_library(frame.filename)]


def _is_ours(frame: FrameSummary) -> bool:
    return frame.filename.startswith(OWN_PACKAGE)


@cache
def _is_library(filename: str) -> bool:
    """Ours, the standard library's, or of an installed package."""
    if filename.startswith(("<frozen", OWN_PACKAGE)):
        return True
    paths = sysconfig.get_paths()
    return any(filename.startswith(f"{paths[name]}/") for name in ("stdlib", "platstdlib", "purelib", "platlib")) or (
        "/site-packages/" in filename or "/dist-packages/" in filename
    )
