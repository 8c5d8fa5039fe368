"""Which engine a run gets: the one that was asked for, or native where it fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.core.errors import UsageError
from palaestra.core.lazy_import import lazy_import
from palaestra.training.engines import native_engine
from palaestra.training.engines.base import TORCH_NAME
from palaestra.training.engines.codes import Unfit
from palaestra.training.engines.native_engine import NativeEngine
from palaestra.training.engines.worlds import exact_worlds
from palaestra.training.freed_memory import keep_freed_memory

if TYPE_CHECKING:
    from palaestra.config.train import TrainConfig
    from palaestra.training.engines import torch_engine
    from palaestra.training.engines.base import Engine
    from palaestra.training.engines.torch_engine import TorchEngine
    from palaestra.training.state import TrainingState
else:
    torch_engine = lazy_import("palaestra.training.engines.torch_engine")


def choose_engine(state: TrainingState) -> Engine:
    """`engine=native` with something that it cannot take is refused by name. A collective, where `native` is looked at.

    All ranks get the same engine: they make the same collectives only then.
    """
    if state.config.engine == "torch":
        return _torch(state)
    engine, unfit = _native(state)
    (are_unfit,) = state.group.agree(int(unfit is not None))
    if engine is not None and not are_unfit:
        return engine
    reason = unfit or Unfit("another rank's machine")
    if state.config.engine == "auto":
        return _torch(state, f"torch; native cannot take it: {reason}")
    raise UsageError(
        f"engine=native cannot take {reason}.", "Set engine=torch, or engine=auto to take native wherever it fits."
    ) from reason


def _native(state: TrainingState) -> tuple[Engine | None, Unfit | None]:
    try:
        _refuse_unfit(state)
        return NativeEngine(state), None
    except Unfit as unfit:
        return None, unfit


def engine_to_go_on_with(state: TrainingState, began_with: str) -> Engine:
    """`auto` stays with the engine that the run began with; only one that was asked for by name takes its place."""
    if state.config.engine == "auto" and began_with == TORCH_NAME and state.engine.name != TORCH_NAME:
        return _torch(state, "torch, with which the run began")
    return state.engine


def _torch(state: TrainingState, description: str = TORCH_NAME) -> TorchEngine:
    if state.tape.is_on_cpu:
        keep_freed_memory()
    return torch_engine.TorchEngine(description, exact_worlds(state.envs, native_engine.learner))


def _refuse_unfit(state: TrainingState) -> None:
    """What is asked of the update, as far as only torch can do it; networks are looked at by `plan_network`."""
    if not state.tape.is_on_cpu:
        raise Unfit(f"device={state.tape.device.type}")
    for setting, is_asked in _only_torch(state.config).items():
        if is_asked:
            raise Unfit(setting)


def _only_torch(config: TrainConfig) -> dict[str, bool]:
    ppo, regularize = config.ppo, config.ppo.regularize
    return {
        "policy.compile=true": config.policy.compile,
        f"ppo.optimizer={ppo.optimizer.kind}": ppo.optimizer.kind != "adam",
        f"ppo.regularize.clip_range={regularize.clip_range}": regularize.clip_range is not None,
        f"ppo.regularize.l2={regularize.l2}": regularize.l2 > 0,
        f"ppo.regularize.l2_init={regularize.l2_init}": regularize.l2_init > 0,
        "ppo.vtrace.enabled=true": ppo.vtrace.enabled,
        "ppo.prioritized.enabled=true": ppo.prioritized.enabled,
        f"ppo.kickstart.teacher={ppo.kickstart.teacher}": ppo.kickstart.teacher is not None,
    }
