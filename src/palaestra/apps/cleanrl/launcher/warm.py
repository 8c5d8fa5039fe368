"""A script begins with the weights of a checkpoint: filled in once its networks are there, before its first step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from . import normalisers
from .snapshot import OPTIMISERS, TENSORS
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
        world = normalisers.world_of(script)
        if world is not None:
            normalisers.fill(world, self._tensors)
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
