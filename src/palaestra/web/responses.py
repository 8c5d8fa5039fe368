"""Plain data as JSON answers."""

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
# The first class that fits decides; what is not named here is a failure of the machine, not of the caller.
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
OTHERWISE = 409


def json_answer(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """UTF-8; a number that is not finite is null."""
    return Response(encode(data), status, headers=dict(headers or {}), media_type=JSON)


def encode(data: Any) -> bytes:
    """The plain case goes straight through; only what JSON does not know is walked. A lone surrogate becomes '?'."""
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError):
        text = json.dumps(plain(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", errors="replace")


def plain(data: Any) -> Any:
    """Dataclasses, tuples, paths and enums as JSON knows them."""
    if is_dataclass(data) and not isinstance(data, type):
        return plain(asdict(data))
    if isinstance(data, dict):
        return {str(key): plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple | set | frozenset):
        return [plain(value) for value in data]
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    return data if data is None or isinstance(data, bool | int | str) else str(data)


class Refusal(PalaestraError):
    """A refusal with a status of its own, for whatever concerns HTTP itself."""

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


def error_answer(error: PalaestraError) -> Response:
    """What the caller is told of an error of the house."""
    if isinstance(error, Refusal):
        return json_answer(error_data(error.message, error.hint, error.fields), error.status, error.headers)
    fields = error.field_errors if isinstance(error, RequestRefused) else ()
    return json_answer(error_data(error.message, error.hint, fields), status_of(error))


def status_of(error: PalaestraError) -> int:
    if isinstance(error, Refusal):
        return error.status
    return next((status for kind, status in STATUSES if isinstance(error, kind)), OTHERWISE)


async def answer_http_error(_request: Request, error: Exception) -> Response:
    """Starlette's own: no such path, no such method."""
    assert isinstance(error, HTTPException)
    return json_answer(error_data(f"{error.detail}."), error.status_code, error.headers)


async def answer_defect(request: Request, error: Exception) -> Response:
    """A defect of ours. Its traceback is in the daemon's log, not in the answer."""
    logger.error("%s %s failed: %s", request.method, request.url.path, type(error).__name__)
    return json_answer(error_data("This is a defect of Palaestra; the daemon's log has the details."), 500)
