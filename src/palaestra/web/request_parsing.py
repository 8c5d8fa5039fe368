"""Parses query and body of a request into the declared types, with limits of size and time."""

from __future__ import annotations

import asyncio
import json
import math
from typing import TYPE_CHECKING, Any, TypeVar, get_origin
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, ValidationError

from palaestra.config.errors import error_reason
from palaestra.core.errors import did_you_mean
from palaestra.core.worker_kind import FieldError
from palaestra.web.endpoints import MUTATIONS
from palaestra.web.responses import HttpError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pydantic_core import ErrorDetails
    from starlette.requests import Request

    from palaestra.web.endpoints import Endpoint

Model = TypeVar("Model", bound=BaseModel)

MAX_PARAMETERS = 500
BODY_SECONDS = 20.0  # for a whole JSON body
SILENCE_SECONDS = 20.0  # between two pieces of an upload
CLOSE = {"connection": "close"}  # do not wait for the rest of the body
MAX_DEPTH = 32
JSON_HINT = "Send JSON (RFC 8259) in UTF-8 without NaN, NUL or duplicate keys, at most 32 levels deep."


class Query(BaseModel):
    """Base of query models. Tuple fields may be repeated; `Field(alias="from")` allows Python keywords."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Body(BaseModel):
    """Base of JSON bodies. Strict: a string is not a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def read_query(endpoint: Endpoint, request: Request) -> Any:
    pairs = _pairs(request.scope["query_string"])
    if endpoint.query is None:
        if pairs:
            raise HttpError(
                422, f"{endpoint.path} has no query parameters.", "", [FieldError(pairs[0][0], "Unknown parameter.")]
            )
        return None
    return validated(endpoint.query, _collect_parameters(endpoint.query, pairs))


def parse_query(model: type[BaseModel], text: bytes) -> dict[str, Any]:
    """Parses the query of a socket, which `dispatch` does not parse."""
    return _collect_parameters(model, _pairs(text))


def _pairs(text: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except ValueError as error:  # also invalid UTF-8
        raise HttpError(400, f"Invalid query: {error}.", "Write name=value&name=value in UTF-8.") from error


async def read_body(endpoint: Endpoint, request: Request) -> Any:
    """Returns None for endpoints without a body and for streams, which the handler reads itself."""
    if endpoint.method in MUTATIONS:
        _check_type(endpoint, request)
    if endpoint.is_stream:
        return None
    pieces = [piece async for piece in limited_stream(request, endpoint.body_limit, BODY_SECONDS)]
    content = b"".join(pieces)
    if endpoint.body is None:
        return None
    is_missing = endpoint.is_body_optional and not content
    return validated(endpoint.body, {} if is_missing else parse_json(content))


async def limited_stream(
    request: Request, limit: int, seconds: float | None = None, silence: float = SILENCE_SECONDS
) -> AsyncIterator[bytes]:
    """Yields the body: 413 above `limit` bytes, 408 after `seconds` in total or `silence` between two pieces."""
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > limit:
        raise _too_large(limit)
    clock = asyncio.get_running_loop()
    deadline = None if seconds is None else clock.time() + seconds
    received, stream = 0, aiter(request.stream())
    while True:
        try:
            timeout = silence if deadline is None else min(silence, deadline - clock.time())
            piece = await asyncio.wait_for(anext(stream), max(timeout, 0.0))
        except StopAsyncIteration:
            return
        except TimeoutError as error:
            raise HttpError(408, "The body arrived too slowly.", "Send it without pauses.", headers=CLOSE) from error
        received += len(piece)
        if received > limit:
            raise _too_large(limit)
        yield piece


def _check_type(endpoint: Endpoint, request: Request) -> None:
    """Prevents writes by a form of a foreign page: a form cannot send application/json."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    has_body = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    if endpoint.method == "DELETE" and not given and not has_body:
        return
    if given not in endpoint.takes:
        wanted = " or ".join(endpoint.takes)
        raise HttpError(415, f"Invalid content type: {given or 'missing'!r}.", f"Send {wanted}.")


def _collect_parameters(model: type[BaseModel], pairs: list[tuple[str, str]]) -> dict[str, Any]:
    many = {field.alias or name for name, field in model.model_fields.items() if get_origin(field.annotation) is tuple}
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in many:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise HttpError(
                400, f"Duplicate parameter '{name}'.", "Send it once.", [FieldError(name, "Duplicate parameter.")]
            )
        else:
            found[name] = value
    return found


def validated(model: type[Model], data: Any) -> Model:
    """Validates data. Raises `HttpError` 422 with all field errors."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        known = [field.alias or name for name, field in model.model_fields.items()]
        fields = [_field_error(details, known) for details in error.errors(include_url=False)]
        count = "1 error" if len(fields) == 1 else f"{len(fields)} errors"
        raise HttpError(422, f"The request has {count}.", "", fields) from error


def _field_error(details: ErrorDetails, known: list[str]) -> FieldError:
    path = ".".join(str(part) for part in details["loc"])
    if details["type"] == "extra_forbidden":
        hint = did_you_mean(path, known) or f"Known: {', '.join(known) or 'none'}."
        return FieldError(path, f"Unknown key '{path}'.", hint)
    return FieldError(path, f"Invalid value for {path or 'the body'}: {error_reason(details)}.")


def _too_large(limit: int) -> HttpError:
    return HttpError(413, f"The body is larger than {limit:,} bytes.", headers=CLOSE)


class _Constant:
    """NaN or infinity, until its path is known."""

    def __init__(self, text: str) -> None:
        self.text = text


class _DuplicateKeyObject(dict[str, Any]):
    """An object with a duplicate key."""

    key = ""


def parse_json(content: bytes) -> Any:
    """Parses strict JSON. Raises `HttpError` 400 that names the path."""
    try:
        data = json.loads(content.decode("utf-8"), object_pairs_hook=_object, parse_constant=_Constant)
    except UnicodeDecodeError as error:
        raise _malformed("", f"The body is not valid UTF-8 (byte {error.start}).") from error
    except RecursionError as error:
        raise _malformed("", f"The body is nested more than {MAX_DEPTH} levels deep.") from error
    except ValueError as error:  # also a number with too many digits
        raise _malformed("", f"The body is not JSON: {error}.") from error
    _check(data)
    return data


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    earlier_keys: set[str] = set()
    duplicate = _DuplicateKeyObject(found)
    duplicate.key = next(key for key, _ in pairs if key in earlier_keys or earlier_keys.add(key))  # type: ignore[func-returns-value]
    return duplicate


def _check(data: Any) -> None:
    """Checks all values without recursion, because the client chooses the depth."""
    pending: list[tuple[Any, str, int]] = [(data, "", 1)]
    while pending:
        value, path, depth = pending.pop()
        if isinstance(value, dict | list):
            if depth > MAX_DEPTH:
                raise _malformed(path, f"The body is nested more than {MAX_DEPTH} levels deep.")
            pending += [(inner, _join_path(path, key), depth + 1) for key, inner in _parts(value, path)]
        else:
            _check_leaf(value, path)


def _parts(value: dict[str, Any] | list[Any], path: str) -> list[tuple[Any, Any]]:
    if isinstance(value, list):
        return list(enumerate(value))
    if isinstance(value, _DuplicateKeyObject):
        key = _join_path(path, value.key)
        raise _malformed(key, f"Duplicate key '{_printable(key)}'.")
    for key in value:
        _check_text(key, path, f"A key of '{_printable(path)}'")
    return list(value.items())


def _check_leaf(value: Any, path: str) -> None:
    if isinstance(value, _Constant):
        raise _malformed(path, f"'{_printable(path)}' is {value.text}, which is not JSON.")
    if isinstance(value, float) and not math.isfinite(value):
        raise _malformed(path, f"'{_printable(path)}' is too large.")
    if isinstance(value, str):
        _check_text(value, path, f"'{_printable(path)}'")


def _check_text(text: str, path: str, name: str) -> None:
    if "\0" in text:
        raise _malformed(path, f"{name} contains a NUL character.")
    if _has_surrogate(text):
        raise _malformed(path, f"{name} has a lone surrogate.")


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text) if not text.isascii() else False


def _join_path(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _printable(path: str) -> str:
    return (path or "the body")[:200].encode("utf-8", errors="backslashreplace").decode("utf-8")


def _malformed(path: str, message: str) -> HttpError:
    return HttpError(400, message, JSON_HINT, [FieldError(_printable(path) if path else "", message)])
