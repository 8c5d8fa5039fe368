"""Query and body of a request, bounded in size and time, as the declared types."""

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
from palaestra.web.responses import Refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pydantic_core import ErrorDetails
    from starlette.requests import Request

    from palaestra.web.endpoints import Endpoint

Model = TypeVar("Model", bound=BaseModel)

MAX_PARAMETERS = 500
BODY_SECONDS = 20.0  # for a whole JSON body
SILENCE_SECONDS = 20.0  # between two pieces of an upload
CLOSE = {"connection": "close"}  # the rest of the body is not waited for
MAX_DEPTH = 32
WHAT = "It is JSON (RFC 8259) in UTF-8: no NaN, no NUL, no doubled keys, at most 32 levels deep."


class Query(BaseModel):
    """Base of query models; `Field(alias="from")` where the word is Python's. Tuple fields may be repeated."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Body(BaseModel):
    """Base of JSON bodies: a text is not a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def read_query(endpoint: Endpoint, request: Request) -> Any:
    pairs = _pairs(request.scope["query_string"])
    if endpoint.query is None:
        if pairs:
            raise Refusal(422, f"{endpoint.path} takes no query.", "", [FieldError(pairs[0][0], "It is not known.")])
        return None
    return validated(endpoint.query, _gathered(endpoint.query, pairs))


def parse_query(model: type[BaseModel], text: bytes) -> dict[str, Any]:
    """For sockets, which are routed without us."""
    return _gathered(model, _pairs(text))


def _pairs(text: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except ValueError as error:  # also bytes that are no UTF-8
        raise Refusal(400, f"The query cannot be read: {error}.", "It is name=value&name=value in UTF-8.") from error


async def read_body(endpoint: Endpoint, request: Request) -> Any:
    """None when the endpoint takes none, whatever was sent; a stream is left to its handler."""
    if endpoint.method in MUTATIONS:
        _check_type(endpoint, request)
    if endpoint.is_stream:
        return None
    pieces = [piece async for piece in limited_stream(request, endpoint.body_limit, BODY_SECONDS)]
    content = b"".join(pieces)
    if endpoint.body is None:
        return None
    is_left_out = endpoint.is_body_optional and not content
    return validated(endpoint.body, {} if is_left_out else parse_json(content))


async def limited_stream(
    request: Request, limit: int, seconds: float | None = None, silence: float = SILENCE_SECONDS
) -> AsyncIterator[bytes]:
    """The body in pieces: 413 above `limit` bytes, 408 when the whole takes `seconds` or one piece `silence`."""
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > limit:
        raise _too_large(limit)
    clock = asyncio.get_running_loop()
    deadline = None if seconds is None else clock.time() + seconds
    received, stream = 0, aiter(request.stream())
    while True:
        try:
            patience = silence if deadline is None else min(silence, deadline - clock.time())
            piece = await asyncio.wait_for(anext(stream), max(patience, 0.0))
        except StopAsyncIteration:
            return
        except TimeoutError as error:
            raise Refusal(408, "The body came too slowly.", "Send it in one go.", headers=CLOSE) from error
        received += len(piece)
        if received > limit:
            raise _too_large(limit)
        yield piece


def _check_type(endpoint: Endpoint, request: Request) -> None:
    """Without this a form of a foreign page could write: forms cannot send application/json."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    has_body = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    if endpoint.method == "DELETE" and not given and not has_body:
        return
    if given not in endpoint.takes:
        wanted = " or ".join(endpoint.takes)
        raise Refusal(415, f"The content type is {given or 'missing'!r}.", f"Send it as {wanted}.")


def _gathered(model: type[BaseModel], pairs: list[tuple[str, str]]) -> dict[str, Any]:
    many = {field.alias or name for name, field in model.model_fields.items() if get_origin(field.annotation) is tuple}
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in many:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise Refusal(400, f"'{name}' is there twice.", "Say it once.", [FieldError(name, "It is there twice.")])
        else:
            found[name] = value
    return found


def validated(model: type[Model], data: Any) -> Model:
    """`Refusal` 422 with every field that is wrong."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        known = [field.alias or name for name, field in model.model_fields.items()]
        fields = [_complaint(details, known) for details in error.errors(include_url=False)]
        count = "Something" if len(fields) == 1 else f"{len(fields)} things"
        raise Refusal(422, f"{count} in the request cannot be.", "", fields) from error


def _complaint(details: ErrorDetails, known: list[str]) -> FieldError:
    path = ".".join(str(part) for part in details["loc"])
    if details["type"] == "extra_forbidden":
        hint = did_you_mean(path, known) or f"Known: {', '.join(known) or 'none'}."
        return FieldError(path, f"Nothing is called '{path}' here.", hint)
    return FieldError(path, f"'{path or 'the body'}' cannot be: {error_reason(details)}.")


def _too_large(limit: int) -> Refusal:
    return Refusal(413, f"The body has more than {limit:,} bytes.", "Send less.", headers=CLOSE)


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
