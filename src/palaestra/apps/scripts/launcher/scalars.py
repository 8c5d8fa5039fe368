"""Reports scalars that a script writes to its SummaryWriter."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from torch.utils import tensorboard

if TYPE_CHECKING:
    from collections.abc import Callable

FLUSH_SECONDS = 5  # instead of 120, so that TensorBoard shows a running training


def install(send: Callable[..., None]) -> None:
    writer: Any = tensorboard.SummaryWriter
    add, initialise_original = writer.add_scalar, writer.__init__

    def add_scalar(self: Any, tag: str, value: Any, global_step: Any = None, *rest: Any, **options: Any) -> Any:
        number = as_float(value)
        if number is not None:
            send("scalar", str(tag), number, None if global_step is None else int(global_step), time.time())
        return add(self, tag, value, global_step, *rest, **options)

    def initialise(self: Any, *arguments: Any, **options: Any) -> None:
        options.setdefault("flush_secs", FLUSH_SECONDS)
        initialise_original(self, *arguments, **options)

    writer.add_scalar, writer.__init__ = add_scalar, initialise


def as_float(value: Any) -> float | None:
    """The value of a number, or of a tensor or array of one number; None for anything else."""
    try:
        return float(value.reshape(-1)[0].item() if hasattr(value, "reshape") else value)
    except (TypeError, ValueError, IndexError, RuntimeError, AttributeError):
        return None
