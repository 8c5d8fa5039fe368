"""Refusals as the web tells them: a status, a message, what to try, and the fields that are wrong.

`{"error": {"message": str, "hint": str, "fields": [{"key", "message", "hint", "exit_code"}]}}`. Every error of the
house has its status here, so that a handler raises what the rest of the house raises and need not know about HTTP.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypedDict

from starlette.exceptions import HTTPException

from palaestra.core.errors import DamagedFile, MissingExtra, NotFound, PalaestraError, UsageError
from palaestra.core.worker_kind import FieldError, RequestRefused
from palaestra.daemon.errors import Conflict, QueueFull, StoreRefused
from palaestra.web.answers import json_answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

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
