"""Captures and restores the whole state of an environment bit for bit, so that a resumed run is the same run.

Every attribute must be plain data, a generator, a MuJoCo simulation, a constant, or a render handle; otherwise the
environment cannot be captured. An environment may also provide its own state (`KeepsState`).
"""

from __future__ import annotations

import importlib
import logging
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from palaestra.core.errors import DamagedFile
from palaestra.envs.state_codec import Decoder, Encoder, UnsupportedValue
from palaestra.rendering.mujoco_state import is_model, is_simulation, model_digest
from palaestra.rendering.offscreen import is_render_handle

# Fields whose length depends on the current contacts; MuJoCo fills them in every substep before it reads them.
SCRATCH = (
    *("efc_", "iefc_", "efm_", "tendon_efcadr"),
    *("island_", "map_", "dof_island", "tree_island", "iacc", "ifrc_"),
    "plugin",
)


def why_not_simulation(simulation: Any) -> str:
    """Why the simulation cannot be captured, or "". Engine plugins keep state in C that Python cannot read."""
    return "uses MuJoCo engine plugins, whose state cannot be read" if simulation.nplugin else ""


def read_simulation(simulation: Any) -> dict[str, Any]:
    """The time and every array of fixed length."""
    return {"time": float(simulation.time), **_fields(simulation)}


def write_simulation(simulation: Any, state: dict[str, Any]) -> None:
    """Restores in place, because the renderer holds the same object."""
    fields = _fields(simulation)
    saved = {name: value for name, value in state.items() if name != "time"}
    if set(saved) != set(fields) or any(saved[name].shape != fields[name].shape for name in fields):
        raise DamagedFile(
            "The saved MuJoCo state does not fit this model.", "Was it saved with another version of MuJoCo?"
        )
    _assign(fields, saved, simulation, state["time"])
    importlib.import_module("mujoco").mj_forward(simulation.model, simulation)
    _assign(_fields(simulation), saved, simulation, state["time"])


def _fields(simulation: Any) -> dict[str, Any]:
    return {name: value for name, value in _arrays(simulation) if not name.startswith(SCRATCH)}


def _arrays(struct: Any) -> list[tuple[str, Any]]:
    named = ((name, getattr(struct, name)) for name in dir(struct) if not name.startswith("_"))
    return [(name, value) for name, value in named if isinstance(value, np.ndarray)]


def _assign(fields: dict[str, Any], saved: dict[str, Any], simulation: Any, time: float) -> None:
    simulation.time = time
    for name, field in fields.items():
        field[...] = saved[name]


FORMAT = 1
NOT_STATE = {"render_mode"}  # may differ after a resume
BASIC_TYPES = {bool, int, float, str, bytes, type(None)}
AnyEnv = gymnasium.Env[Any, Any]


@runtime_checkable
class KeepsState(Protocol):
    """An environment or wrapper that returns all of its state as plain data; its `np_random` is added here."""

    def get_state(self) -> Any: ...

    def set_state(self, state: Any, /) -> None: ...


def capture(env: AnyEnv) -> dict[str, Any] | None:
    """The complete state of `env` as plain data; None if some of it cannot be captured."""
    try:
        return _capture(env)
    except UnsupportedValue:
        return None


def why_not(env: AnyEnv) -> str:
    """One sentence naming what cannot be captured; empty if everything can."""
    try:
        _capture(env)
    except UnsupportedValue as refusal:
        name = env.spec.id if env.spec else type(env.unwrapped).__name__
        return f"The state of {name} cannot be captured: {refusal}."
    return ""


def restore(env: AnyEnv, data: dict[str, Any]) -> None:
    """Restores `env`, which must be made like the captured one."""
    layers = _layers(env)
    saved_layers = _saved_layers(data, [_class_name(layer) for layer in layers])
    decoder = Decoder()
    decoded = [{name: _decode(decoder, part) for name, part in saved.items()} for saved in saved_layers]
    for layer, state in zip(layers, decoded, strict=True):
        _refuse_other_constants(layer, state)
    for layer, state in zip(layers, decoded, strict=True):
        _restore_layer(layer, state)


def _saved_layers(data: dict[str, Any], names: list[str]) -> list[dict[str, Any]]:
    """The attributes of each layer, after checking that they belong to this kind of environment."""
    try:
        saved_format, layers = data["format"], data["layers"]
        saved_names = [layer["class"] for layer in layers]
        attributes = [dict(layer["state"]) for layer in layers]
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFile(f"A saved environment state cannot be read ({type(error).__name__}: {error}).") from error
    if saved_format != FORMAT:
        raise DamagedFile(f"This environment state has format {saved_format!r}; this version reads {FORMAT}.")
    if saved_names != names:
        raise DamagedFile(
            f"This state is of {' in '.join(map(str, reversed(saved_names)))}, not of {' in '.join(reversed(names))}.",
            "Make the environment as it was made when the state was saved.",
        )
    return attributes


# ---- capture


def _capture(env: AnyEnv) -> dict[str, Any]:
    encoder = Encoder()
    layers = []
    for layer in _layers(env):
        _refuse_slots(layer)
        state = {name: _encode(encoder, layer, name, value) for name, value in _attributes(layer).items()}
        layers.append({"class": _class_name(layer), "state": state})
    return {"format": FORMAT, "layers": layers}


def _layers(env: AnyEnv) -> list[AnyEnv]:
    """From the outermost wrapper to the environment itself."""
    layers = [env]
    while isinstance(layers[-1], gymnasium.Wrapper):
        layers.append(layers[-1].env)
    return layers


def _attributes(layer: AnyEnv) -> dict[str, Any]:
    if hasattr(layer, "get_state") and isinstance(layer, KeepsState):  # isinstance alone is slow
        own_generator = {name: value for name, value in vars(layer).items() if name == "_np_random"}
        return {"get_state()": layer.get_state(), **own_generator}
    skipped = {*NOT_STATE, "env"} if isinstance(layer, gymnasium.Wrapper) else NOT_STATE
    return {name: value for name, value in vars(layer).items() if name not in skipped}


def _encode(encoder: Encoder, layer: AnyEnv, name: str, value: Any) -> Any:
    where = f"{type(layer).__name__}.{name}"
    if type(value) in BASIC_TYPES:  # most attributes; none of these is a render handle or a constant
        return encoder.encode(value, where)
    if is_render_handle(value):
        return {"kind": "drawing"}
    if is_simulation(value):
        reason = why_not_simulation(value)
        if reason:
            raise UnsupportedValue(where, reason)
        fields = {key: _detached(part) for key, part in read_simulation(value).items()}
        return {"kind": "simulation", "fields": encoder.encode(fields, where)}
    constant = _constant_name(value, layer)
    if constant:
        return {"kind": "constant", "name": constant}
    return encoder.encode(value, where)


def _detached(part: Any) -> Any:
    """A copy: the fields of a simulation are views into MuJoCo's memory."""
    return part.copy() if hasattr(part, "copy") else part


def _constant_name(value: Any, layer: AnyEnv) -> str:
    """The name of a constant; empty for everything else."""
    if is_model(value):
        return f"MuJoCo model {model_digest(value)}"
    if isinstance(value, gymnasium.Space | EnvSpec | logging.Logger):
        return type(value).__name__
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, type | BuiltinFunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, FunctionType) and value.__closure__ is None:
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, MethodType) and value.__self__ in (layer, type(layer)):
        return f"{value.__module__}.{value.__qualname__}"
    return _constant_container_name(value, layer)


def _constant_container_name(value: Any, layer: AnyEnv) -> str:
    if type(value) not in {list, tuple, dict} or not value:
        return ""
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    named = {key: _constant_name(part, layer) for key, part in parts}
    return f"{type(value).__name__} of {named}" if all(named.values()) else ""


def _refuse_slots(layer: AnyEnv) -> None:
    for kind in type(layer).__mro__:
        if kind.__dict__.get("__slots__"):
            raise UnsupportedValue(kind.__name__, "keeps attributes in __slots__, which are not captured")


# ---- restore


def _decode(decoder: Decoder, part: Any) -> Any:
    if isinstance(part, dict) and part.get("kind") == "constant":
        return _Constant(str(part["name"]))
    if isinstance(part, dict) and part.get("kind") == "drawing":
        return _RenderHandle()
    if isinstance(part, dict) and part.get("kind") == "simulation":
        return _Simulation(decoder.decode(part["fields"]))
    return decoder.decode(part)


class _Constant(str):
    """The name of a constant attribute; the new environment must have the same one."""

    __slots__ = ()


class _RenderHandle:
    """A render handle; the new environment keeps its own, if it has one."""


class _Simulation(dict[str, Any]):
    __slots__ = ()


def _refuse_other_constants(layer: AnyEnv, state: dict[str, Any]) -> None:
    for name, saved in state.items():
        present = vars(layer).get(name)
        if isinstance(saved, _Constant) and present is not None and _constant_name(present, layer) != saved:
            raise DamagedFile(
                f"{type(layer).__name__}.{name} was {str(saved)[:80]} when the state was saved, and has changed.",
                "Is it changed while the environment runs? Then its state cannot be restored.",
            )


def _restore_layer(layer: AnyEnv, state: dict[str, Any]) -> None:
    if isinstance(layer, KeepsState):
        layer.set_state(state["get_state()"])
        if "_np_random" in state:
            vars(layer)["_np_random"] = state["_np_random"]
        return
    for name in _attributes(layer).keys() - state.keys():
        if not is_render_handle(vars(layer)[name]):
            del vars(layer)[name]
    for name, value in state.items():
        if isinstance(value, _Simulation):
            write_simulation(vars(layer)[name], value)
        elif not isinstance(value, _Constant | _RenderHandle) and not is_render_handle(vars(layer).get(name)):
            vars(layer)[name] = value


def _class_name(layer: AnyEnv) -> str:
    return f"{type(layer).__module__}.{type(layer).__qualname__}"
