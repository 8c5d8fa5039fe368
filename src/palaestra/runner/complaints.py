"""What is wrong with a configuration, one complaint per key, for whoever submits a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from palaestra.config.errors import describe_errors
from palaestra.core.worker_kind import FieldError

if TYPE_CHECKING:
    from palaestra.core.errors import PalaestraError


def complaints_of(error: PalaestraError, model_type: type[BaseModel], key: str = "") -> list[FieldError]:
    """Each mistake under its own key where `error` came of a validation; else the error itself, under `key`."""
    cause = error.__cause__
    if not isinstance(cause, ValidationError):
        return [FieldError(key, error.message, error.hint, error.exit_code)]
    places = [".".join(str(part) for part in details["loc"]) for details in cause.errors(include_url=False)]
    told = describe_errors(model_type, cause)
    return [FieldError(place, message, hint) for place, (message, hint) in zip(places, told, strict=True)]
