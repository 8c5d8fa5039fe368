"""A script begins with the weights of a checkpoint: filled in once its networks are there, before its first step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from . import jax_states, normalisers
from .snapshot import OPTIMISERS, TENSORS
from .weights import NotFitting, fill, of_network, read

if TYPE_CHECKING:
    from collections.abc import Callable


class WarmStart:
    """Only values are taken over; how far its loops count and what its buffers hold is the script's own affair."""

    def __init__(self, start: dict[str, str], say: Callable[..., None]) -> None:
        notes, self._tensors = read(Path(start["weights"]), start["sha256"])
        self._states: dict[str, str] = json.loads(notes.get("states", "{}"))  # of JAX, with the names of their networks
        of_states = {*self._states, *self._states.values()}
        classes: dict[str, str] = json.loads(notes["classes"])
        self._classes = {name: kind for name, kind in classes.items() if name not in of_states}
        self._say = say

    def is_ready(self, script: dict[str, Any]) -> bool:
        """Whether the script has made all that was saved."""
        has_networks = all(isinstance(script.get(name), torch.nn.Module) for name in self._classes)
        return has_networks and all(name in script for name in self._states)

    def fill_in(self, script: dict[str, Any], script_globals: dict[str, Any] | None = None) -> None:
        """`script`: its names; `script_globals`: those among them that can be given another value."""
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
        for name in self._states:
            self._replace_state(name, script if script_globals is None else script_globals)
        self._say("warmed", sorted({*self._classes, *self._states}), filled)

    def _replace_state(self, name: str, script: dict[str, Any]) -> None:
        """JAX's states never change; the script's global gets another one."""
        if name not in script:
            raise NotFitting(f"the checkpoint has a state '{name}', and this script has no such global")
        script[name] = jax_states.fill_tree(script[name], of_network(self._tensors, name), name)

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
