"""JSON responses, and errors as responses with a status.

An error is `{"error": {"message": str, "hint": str, "fields": [{"key", "message", "hint", "exit_code"}]}}`. Every
`PalaestraError` has its status here, so that handlers need not know about HTTP.
"""

from __future__ import annotations

import json
import logging
import math
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from starlette.exceptions import HTTPException
from starlette.responses import Response

from palaestra.core.errors import DamagedFile, MissingExtra, NotFound, PalaestraError, UsageError
from palaestra.core.worker_kind import FieldError, RequestRefused
from palaestra.daemon.errors import Conflict, QueueFull, StoreRefused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request

JSON = "application/json"
logger = logging.getLogger(__name__)
# The first matching class decides.
STATUSES: tuple[tuple[type[PalaestraError], int], ...] = (
    (RequestRefused, 422),
    (Conflict, 409),
    (StoreRefused, 507),
    (QueueFull, 503),
    (NotFound, 404),
    (MissingExtra, 422),
    (UsageError, 422),
    (DamagedFile, 409),
)
DEFAULT_STATUS = 409


def json_response(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Encodes data as UTF-8 JSON; a non-finite number becomes null."""
    return Response(encode_json(data), status, headers=dict(headers or {}), media_type=JSON)


def encode_json(data: Any) -> bytes:
    """Encodes plain data directly and converts other data first. A lone surrogate becomes '?'."""
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError):
        text = json.dumps(to_json_types(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", errors="replace")


def to_json_types(data: Any) -> Any:
    """Converts dataclasses, tuples, paths, enums and non-finite numbers to JSON types."""
    if is_dataclass(data) and not isinstance(data, type):
        return to_json_types(asdict(data))
    if isinstance(data, dict):
        return {str(key): to_json_types(value) for key, value in data.items()}
    if isinstance(data, list | tuple | set | frozenset):
        return [to_json_types(value) for value in data]
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    return data if data is None or isinstance(data, bool | int | str) else str(data)


class HttpError(PalaestraError):
    """An error with a status of its own, for errors of HTTP itself."""

    def __init__(
        self,
        status: int,
        message: str,
        hint: str = "",
        fields: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, hint)
        self.status = status
        self.fields = tuple(fields)
        self.headers = dict(headers or {})


class ErrorDetails(TypedDict):
    message: str
    hint: str
    fields: list[FieldError]


class ErrorResponse(TypedDict):
    error: ErrorDetails


def error_data(message: str, hint: str = "", fields: Sequence[FieldError] = ()) -> ErrorResponse:
    return {"error": {"message": message, "hint": hint, "fields": list(fields)}}


def error_response(error: PalaestraError) -> Response:
    """Returns the response for an error."""
    if isinstance(error, HttpError):
        return json_response(error_data(error.message, error.hint, error.fields), error.status, error.headers)
    fields = error.field_errors if isinstance(error, RequestRefused) else ()
    return json_response(error_data(error.message, error.hint, fields), status_of(error))


def status_of(error: PalaestraError) -> int:
    if isinstance(error, HttpError):
        return error.status
    return next((status for kind, status in STATUSES if isinstance(error, kind)), DEFAULT_STATUS)


async def handle_http_error(_request: Request, error: Exception) -> Response:
    """Handles Starlette's own errors, such as an unknown path."""
    assert isinstance(error, HTTPException)
    return json_response(error_data(f"{error.detail}."), error.status_code, error.headers)


async def handle_internal_error(request: Request, error: Exception) -> Response:
    """Handles a bug. Its traceback is in the daemon's log, not in the response."""
    logger.error("%s %s failed: %s", request.method, request.url.path, type(error).__name__)
    return json_response(error_data("Internal error of Palaestra; the daemon's log has the traceback."), 500)
