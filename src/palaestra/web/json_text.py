"""JSON from a caller: strict, shallow, and every refusal names the field."""

from __future__ import annotations

import json
import math
from typing import Any

from palaestra.core.worker_kind import FieldError
from palaestra.web.errors import Refusal

MAX_DEPTH = 32
WHAT = "It is JSON (RFC 8259) in UTF-8: no NaN, no NUL, no doubled keys, at most 32 levels deep."


class _Constant:
    """NaN or an infinity, until it is known where it stands."""

    def __init__(self, text: str) -> None:
        self.text = text


class _Doubled(dict[str, Any]):
    """An object with a key that is there twice."""

    key = ""


def parse_json(content: bytes) -> Any:
    """Plain data; `Refusal` 400 otherwise."""
    try:
        data = json.loads(content.decode("utf-8"), object_pairs_hook=_object, parse_constant=_Constant)
    except UnicodeDecodeError as error:
        raise _malformed("", f"The body is not UTF-8: byte {error.start} cannot be.") from error
    except RecursionError as error:
        raise _malformed("", f"The body is nested more than {MAX_DEPTH} levels deep.") from error
    except ValueError as error:  # also a number of more digits than Python reads
        raise _malformed("", f"The body is not JSON: {error}.") from error
    _check(data)
    return data


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    doubled = _Doubled(found)
    doubled.key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
    return doubled


def _check(data: Any) -> None:
    """Without recursion: the caller decides how deep it is."""
    waiting: list[tuple[Any, str, int]] = [(data, "", 1)]
    while waiting:
        value, path, depth = waiting.pop()
        if isinstance(value, dict | list):
            if depth > MAX_DEPTH:
                raise _malformed(path, f"The body is nested more than {MAX_DEPTH} levels deep.")
            waiting += [(inner, _joined(path, key), depth + 1) for key, inner in _parts(value, path)]
        else:
            _check_leaf(value, path)


def _parts(value: dict[str, Any] | list[Any], path: str) -> list[tuple[Any, Any]]:
    if isinstance(value, list):
        return list(enumerate(value))
    if isinstance(value, _Doubled):
        key = _joined(path, value.key)
        raise _malformed(key, f"'{_shown(key)}' is there twice.")
    for key in value:
        _check_text(key, path, f"A key of '{_shown(path)}'")
    return list(value.items())


def _check_leaf(value: Any, path: str) -> None:
    if isinstance(value, _Constant):
        raise _malformed(path, f"'{_shown(path)}' is {value.text}, which is no JSON.")
    if isinstance(value, float) and not math.isfinite(value):
        raise _malformed(path, f"'{_shown(path)}' is too large a number.")
    if isinstance(value, str):
        _check_text(value, path, f"'{_shown(path)}'")


def _check_text(text: str, path: str, name: str) -> None:
    if "\0" in text:
        raise _malformed(path, f"{name} contains a NUL character.")
    if _has_surrogate(text):
        raise _malformed(path, f"{name} has half a character (a lone surrogate).")


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text) if not text.isascii() else False


def _joined(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _shown(path: str) -> str:
    return (path or "the body")[:200].encode("utf-8", errors="backslashreplace").decode("utf-8")


def _malformed(path: str, message: str) -> Refusal:
    return Refusal(400, message, WHAT, [FieldError(_shown(path) if path else "", message)])
