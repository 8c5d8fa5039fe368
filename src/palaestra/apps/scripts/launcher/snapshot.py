"""Finds the networks of a running script, writes them as a safetensors file, and loads one at the start of a script."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from . import normalisers
from .jax_networks import fill_tree, find_states
from .observer import find_arguments, names_in_scope
from .weights import TYPES, Mismatch, fill, of_network, read

if TYPE_CHECKING:
    from collections.abc import Callable

    from .observer import Observer

SEPARATOR = "."
TENSORS = "tensors"  # trained tensors outside of networks, such as SAC's log_alpha
OPTIMISERS = "optimisers"


def collect_tensors(script: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Tensors by name and the class of each network among `script`'s names; both empty without networks."""
    tensors: dict[str, Any] = {}
    classes: dict[str, str] = {}
    visited: set[int] = set()
    for name, value in list(script.items()):
        if name.startswith("_") or id(value) in visited:
            continue
        if isinstance(value, torch.nn.Module):
            visited.add(id(value))
            classes[name] = type(_uncompiled(value)).__name__
            tensors.update(_prefixed(name, _saved_tensors(_uncompiled(value).state_dict())))
        elif isinstance(value, torch.optim.Optimizer):
            tensors.update(_prefixed(f"{OPTIMISERS}.{name}", _optimiser_tensors(value)))
        elif isinstance(value, torch.Tensor) and value.is_leaf and value.requires_grad:
            tensors[f"{TENSORS}.{name}"] = value
    if classes:
        tensors.update(normalisers.collect(script))
    return tensors, classes


def arguments_of(script: dict[str, Any]) -> dict[str, Any]:
    """The script's parsed arguments, as far as their values are basic types or lists of them."""
    args = find_arguments(script)
    if dataclasses.is_dataclass(args) and not isinstance(args, type):
        found = {field.name: getattr(args, field.name) for field in dataclasses.fields(args)}
    else:
        found = dict(getattr(args, "__dict__", {}))
    basic = (bool, int, float, str, type(None))
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, basic) or (isinstance(value, list) and all(isinstance(one, basic) for one in value))
    }


def write(path: Path, tensors: dict[str, Any], notes: dict[str, str]) -> None:
    """Writes a safetensors file; the name appears only once the file is complete."""
    header: dict[str, Any] = {"__metadata__": notes}
    chunks: list[bytes] = []
    position = 0
    for name, tensor in tensors.items():
        chunk = _bytes_of(tensor)
        end = position + len(chunk)
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [position, end]}
        chunks.append(chunk)
        position = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    temporary = path.with_suffix(".draft")
    with temporary.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little"))
        stream.write(text)
        stream.writelines(chunks)
    temporary.replace(path)


def _bytes_of(tensor: Any) -> bytes:
    flat = tensor.detach().to("cpu").contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).numpy().tobytes()) if flat.numel() else b""


def _uncompiled(network: Any) -> Any:
    """The module inside a module of torch.compile."""
    inner = vars(network).get("_modules", {}).get("_orig_mod")
    return network if inner is None else inner


def _saved_tensors(state: dict[str, Any]) -> dict[str, Any]:
    """Tensors of a state_dict that a checkpoint can hold, without torch.compile's prefix in their names."""
    return {
        name.replace("_orig_mod.", ""): value
        for name, value in state.items()
        if isinstance(value, torch.Tensor) and value.dtype in TYPES
    }


def _optimiser_tensors(optimiser: Any) -> dict[str, Any]:
    """Moments and step counts, without hyperparameters."""
    return {
        f"{parameter}.{key}": value
        for parameter, entries in optimiser.state_dict()["state"].items()
        for key, value in entries.items()
        if isinstance(value, torch.Tensor) and value.dtype in TYPES
    }


def _prefixed(prefix: str, tensors: dict[str, Any]) -> dict[str, Any]:
    return {f"{prefix}{SEPARATOR}{name}": value for name, value in tensors.items()}


class Saver:
    """Writes snapshots of a running script into a folder, from which the parent process takes them."""

    def __init__(self, observer: Observer, outbox: Path, script: Path, source: bytes) -> None:
        self._observer = observer
        self._outbox = outbox
        self._count = 0
        self._locals: dict[str, Any] = {}  # local variables of the script's functions, kept after those return
        self._statistics: dict[str, Any] = {}  # latest readable statistics of observation normalisation
        self._notes = {
            "script": script.name,
            "sha256": hashlib.sha256(source).hexdigest(),
            "source": source.decode("utf-8", "replace"),
        }

    def collect_statistics(self, vector: Any) -> None:
        """Reads normalisation statistics at the first step (`vector` is None) and before a vector environment closes,
        when its worker processes take them along."""
        names = self._known()
        env = normalisers.find_env(names)
        if vector is not None and env is not None and normalisers.unwrapped(env) is vector:
            self._statistics = normalisers.collect(names) or self._statistics

    def save(self, reason: str) -> None:
        names = self._known()
        tensors, classes = collect_tensors(names)
        states = find_states(names)
        classes.update(states.classes)
        if not classes:
            self._observer.send("save_failed", reason, "no network was found among the variables of the script")
            return
        if states.networks:
            tensors = {**tensors, **states.tensors, **normalisers.collect(names)}
        found = {name: one for name, one in tensors.items() if name.startswith(f"{normalisers.NORMALISERS}.")}
        self._statistics = found or self._statistics
        arguments = json.dumps(arguments_of(names))
        notes = {**self._notes, "args": arguments, "classes": json.dumps(classes), "env_id": self._observer.env_id}
        if states.networks:
            notes["states"] = json.dumps(states.networks)
        self._count += 1
        path = self._outbox / f"{self._count:06d}.safetensors"
        try:
            write(path, {**tensors, **self._statistics}, notes)
        except OSError as error:
            self._observer.send("save_failed", reason, f"the file could not be written: {error.strerror}")
            return
        self._observer.send("saved", reason, str(path), self._observer.global_step, classes)

    def _known(self) -> dict[str, Any]:
        script = self._observer.script
        names = names_in_scope(script)
        self._locals.update({name: value for name, value in names.items() if script.get(name) is not value})
        return {**self._locals, **names}


class WarmStart:
    """Loads the weights of an earlier run into a script. Step counters and buffers of the script are not restored."""

    def __init__(self, start: dict[str, str], send: Callable[..., None]) -> None:
        notes, self._tensors = read(Path(start["weights"]), start["sha256"])
        self._states: dict[str, str] = json.loads(notes.get("states", "{}"))  # states of JAX -> names of their networks
        of_states = {*self._states, *self._states.values()}
        classes: dict[str, str] = json.loads(notes["classes"])
        self._classes = {name: kind for name, kind in classes.items() if name not in of_states}
        self._send = send

    def is_ready(self, script: dict[str, Any]) -> bool:
        """Whether the script has created every saved network."""
        has_networks = all(isinstance(script.get(name), torch.nn.Module) for name in self._classes)
        return has_networks and all(name in script for name in self._states)

    def fill_in(self, script: dict[str, Any], script_globals: dict[str, Any] | None = None) -> None:
        """Loads all weights. `script`: its variables; `script_globals`: those that can be reassigned."""
        for name, kind in self._classes.items():
            network = script.get(name)
            if not isinstance(network, torch.nn.Module):
                raise Mismatch(f"the checkpoint has a network '{name}' ({kind}), and this script has none")
            fill(network, of_network(self._tensors, name), name)
        for name, value in of_network(self._tensors, TENSORS).items():
            if isinstance(script.get(name), torch.Tensor) and script[name].shape == value.shape:
                with torch.no_grad():
                    script[name].copy_(value)
        optimisers = [name for name, one in script.items() if isinstance(one, torch.optim.Optimizer)]
        filled = [name for name in optimisers if self._fill_optimiser(script[name], name)]
        env = normalisers.find_env(script)
        if env is not None:
            normalisers.fill(env, self._tensors)
        for name in self._states:
            self._replace_state(name, script if script_globals is None else script_globals)
        self._send("warm_started", sorted({*self._classes, *self._states}), filled)

    def _replace_state(self, name: str, script: dict[str, Any]) -> None:
        """States of JAX are immutable: the script's global is replaced."""
        if name not in script:
            raise Mismatch(f"the checkpoint has a state '{name}', and this script has no such global")
        script[name] = fill_tree(script[name], of_network(self._tensors, name), name)

    def _fill_optimiser(self, optimiser: Any, name: str) -> bool:
        """Restores moments and step counts; False if they do not fit the script's parameters."""
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
