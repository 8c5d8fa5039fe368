"""What the script gives to its SummaryWriter, also to us."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from torch.utils import tensorboard

if TYPE_CHECKING:
    from collections.abc import Callable

FLUSH_SECONDS = 5  # instead of 120: who looks at TensorBoard while it trains wants to see something


def install(say: Callable[..., None]) -> None:
    writer: Any = tensorboard.SummaryWriter
    add, begin = writer.add_scalar, writer.__init__

    def add_scalar(self: Any, tag: str, value: Any, global_step: Any = None, *rest: Any, **options: Any) -> Any:
        number = as_number(value)
        if number is not None:
            say("scalar", str(tag), number, None if global_step is None else int(global_step), time.time())
        return add(self, tag, value, global_step, *rest, **options)

    def initialise(self: Any, *arguments: Any, **options: Any) -> None:
        options.setdefault("flush_secs", FLUSH_SECONDS)
        begin(self, *arguments, **options)

    writer.add_scalar, writer.__init__ = add_scalar, initialise


def as_number(value: Any) -> float | None:
    """Of a number, a tensor or an array that holds one; None for anything else, which is the script's business."""
    try:
        return float(value.reshape(-1)[0].item() if hasattr(value, "reshape") else value)
    except (TypeError, ValueError, IndexError, RuntimeError, AttributeError):
        return None
