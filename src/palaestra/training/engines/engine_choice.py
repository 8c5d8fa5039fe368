"""Which engine computes an algorithm; `auto` takes the native one where it fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.algorithms.base import TORCH_ENGINE
from palaestra.core.errors import UsageError
from palaestra.training.engines.network_plan import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from palaestra.algorithms.base import Algorithm
    from palaestra.algorithms.group import Group
    from palaestra.config.train import TrainConfig


def choose_engine(
    config: TrainConfig, group: Group, with_torch: Callable[[str], Algorithm], with_native: Callable[[], Algorithm]
) -> Algorithm:
    """Every rank gets the same engine, because each engine makes collectives of its own.

    `with_torch` takes the description of the engine; `with_native` raises Unsupported for what only torch can do.
    """
    if config.engine == "torch":
        return with_torch(TORCH_ENGINE)
    native, unfit = None, None
    try:
        native = with_native()
    except Unsupported as error:
        unfit = error
    (are_unfit,) = group.max_over_ranks(int(unfit is not None))
    if native is not None and not are_unfit:
        return native
    reason = unfit or Unsupported("another rank's machine")
    if config.engine == "auto":
        return with_torch(f"torch; native cannot take it: {reason}")
    raise UsageError(
        f"engine=native cannot take {reason}.", "Set engine=torch, or engine=auto to take native wherever it fits."
    ) from reason
