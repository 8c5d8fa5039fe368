"""Plain data as JSON answers."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

JSON = "application/json"


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
