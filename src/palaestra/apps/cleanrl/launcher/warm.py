"""A script begins with the weights of a checkpoint: filled in once its networks are there, before its first step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from .snapshot import NORMALISERS, OPTIMISERS, TENSORS
from .weights import NotFitting, fill, of_network, read

if TYPE_CHECKING:
    from collections.abc import Callable


class WarmStart:
    """Only values are taken over; how far its loops count and what its buffers hold is the script's own affair."""

    def __init__(self, start: dict[str, str], say: Callable[..., None]) -> None:
        notes, self._tensors = read(Path(start["weights"]), start["sha256"])
        self._classes: dict[str, str] = json.loads(notes["classes"])
        self._say = say

    def is_ready(self, script: dict[str, Any]) -> bool:
        """Whether the script has made all that was saved."""
        return all(isinstance(script.get(name), torch.nn.Module) for name in self._classes)

    def fill_in(self, script: dict[str, Any]) -> None:
        for name, kind in self._classes.items():
            network = script.get(name)
            if not isinstance(network, torch.nn.Module):
                raise NotFitting(f"the checkpoint has a network '{name}' ({kind}), and this script has none")
            fill(network, of_network(self._tensors, name), name)
        for name, value in of_network(self._tensors, TENSORS).items():
            if isinstance(script.get(name), torch.Tensor) and script[name].shape == value.shape:
                with torch.no_grad():
                    script[name].copy_(value)
        optimisers = [name for name, one in script.items() if isinstance(one, torch.optim.Optimizer)]
        filled = [name for name in optimisers if self._fill_optimiser(script[name], name)]
        self._fill_statistics(script.get("envs"))
        self._say("warmed", sorted(self._classes), filled)

    def _fill_optimiser(self, optimiser: Any, name: str) -> bool:
        """Moments and step counts; False where it has others now, and begins without."""
        saved = of_network(self._tensors, f"{OPTIMISERS}.{name}")
        parameters = [one for group in optimiser.param_groups for one in group["params"]]
        state: dict[int, dict[str, Any]] = {}
        for key, value in saved.items():
            number, _, part = key.partition(".")
            if int(number) >= len(parameters) or (value.ndim and value.shape != parameters[int(number)].shape):
                return False
            state.setdefault(int(number), {})[part] = value
        if state:
            optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
        return bool(state)

    def _fill_statistics(self, envs: Any) -> None:
        """Of observation normalisers; environments beyond those that were saved get those of the first."""
        for index, env in enumerate(getattr(envs, "envs", None) or []):
            while env is not None and hasattr(env, "__dict__"):
                statistics = vars(env).get("obs_rms")
                if statistics is not None:
                    self._fill_one(statistics, index)
                env = vars(env).get("env")

    def _fill_one(self, statistics: Any, index: int) -> None:
        number = index if f"{NORMALISERS}.{index}.mean" in self._tensors else 0
        for name in ("mean", "var", "count"):
            value = self._tensors.get(f"{NORMALISERS}.{number}.{name}")
            if value is not None:
                setattr(statistics, name, float(value) if name == "count" else value.numpy().copy())
