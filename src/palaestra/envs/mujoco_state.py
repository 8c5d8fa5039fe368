"""The state of a MuJoCo simulation, bit for bit, without importing MuJoCo unless an environment already has.

After `mj_step` the derived fields (xpos, cfrc_ext, …) lag behind qpos by one substep, and environments read them: the
velocity of Ant is the difference of two xpos. So derived fields are saved too; `mj_forward` alone would not do.
The contacts and constraints of the last substep are in a scratch area and are recomputed: an environment that
reads them *before* the first substep of a step would get those of the current position.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from palaestra.core.errors import DamagedFile

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
