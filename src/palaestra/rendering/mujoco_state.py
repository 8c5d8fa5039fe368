"""State of a MuJoCo simulation for rendering. MuJoCo is imported only for environments that use it.

After `mj_step` the positions of bodies lag one substep behind qpos. Recomputed, they would give another image, so they
are sent too.
"""

from __future__ import annotations

import hashlib
import importlib
from typing import Any

import numpy as np

SHADOW_SIZE = 512  # pixels of a light's shadow map; MuJoCo's default is 4096
RENDERED_FIELDS = (
    *("xpos", "xquat", "xmat", "xipos", "ximat", "xanchor", "xaxis", "subtree_com"),
    *("geom_xpos", "geom_xmat", "site_xpos", "site_xmat", "cam_xpos", "cam_xmat", "light_xpos", "light_xdir"),
)


def is_simulation(value: Any) -> bool:
    return _is_mujoco(value, "MjData")


def is_model(value: Any) -> bool:
    return _is_mujoco(value, "MjModel")


def model_digest(model: Any) -> str:
    """A hash of the model's arrays, to detect changes at run time."""
    found = hashlib.sha256()
    for name in dir(model):
        value = None if name.startswith("_") else getattr(model, name)
        if isinstance(value, np.ndarray):
            found.update(name.encode())
            found.update(np.ascontiguousarray(value).tobytes())
    return found.hexdigest()


def capture(simulation: Any) -> dict[str, Any]:
    mujoco: Any = importlib.import_module("mujoco")
    model, kind = simulation.model, mujoco.mjtState.mjSTATE_INTEGRATION
    state = np.empty(mujoco.mj_stateSize(model, kind))
    mujoco.mj_getState(model, simulation, state, kind)
    return {"state": state, "fields": b"".join([getattr(simulation, name).tobytes() for name in RENDERED_FIELDS])}


def restore(simulation: Any, found: dict[str, Any]) -> None:
    """Restores in place, because the renderer holds the same object."""
    mujoco: Any = importlib.import_module("mujoco")
    mujoco.mj_setState(simulation.model, simulation, found["state"], mujoco.mjtState.mjSTATE_INTEGRATION)
    mujoco.mj_forward(simulation.model, simulation)
    data, offset = found["fields"], 0
    for name in RENDERED_FIELDS:
        field = getattr(simulation, name)
        field[...] = np.frombuffer(data, field.dtype, field.size, offset).reshape(field.shape)
        offset += field.nbytes


def reduce_quality(env: Any) -> None:
    """Turns antialiasing off and makes shadow maps small, for the live view.

    Call it before the first frame: MuJoCo reads both only when it creates its rendering context.
    Rendered in software, a frame of Walker2d takes 6 ms of CPU time without these and shadows, and 67 ms with MuJoCo's
    defaults.
    """
    for value in vars(env.unwrapped).values():
        if is_model(value):
            value.vis.quality.offsamples = 0
            value.vis.quality.shadowsize = SHADOW_SIZE


def disable_shadows(env: Any) -> None:
    """Disables shadows and reflections. Call it after the first frame, which creates the scene with these flags."""
    viewer = getattr(getattr(env.unwrapped, "mujoco_renderer", None), "viewer", None)
    if viewer is not None and hasattr(viewer, "scn"):
        flags: Any = importlib.import_module("mujoco").mjtRndFlag
        viewer.scn.flags[flags.mjRND_SHADOW] = viewer.scn.flags[flags.mjRND_REFLECTION] = 0


class FreeCamera:
    """Remembers where Gymnasium's free camera looks in each slot, so that one renderer serves many environments.

    The first frame of an episode aims the camera; it stays there.
    """

    def __init__(self, env: Any) -> None:
        self._renderer: Any = getattr(env.unwrapped, "mujoco_renderer", None)
        self._targets: dict[int, Any] = {}  # by slot

    @property
    def has_movable_camera(self) -> bool:
        return hasattr(self._renderer, "_set_cam_config")

    def aim(self, slot: int) -> None:
        """Aims the camera before a frame of this slot; the simulation has been restored already."""
        viewer = getattr(self._renderer, "viewer", None)
        if viewer is None or not hasattr(viewer, "_init_camera"):
            return  # the first frame creates and aims it
        if slot not in self._targets:
            viewer._init_camera()
            self._renderer._set_cam_config()
            self._targets[slot] = np.array(viewer.cam.lookat)
        viewer.cam.lookat[:] = self._targets[slot]

    def remember(self, slot: int) -> None:
        """Stores where the camera looks, after a frame."""
        viewer = getattr(self._renderer, "viewer", None)
        if viewer is not None:
            self._targets.setdefault(slot, np.array(viewer.cam.lookat))

    def reset(self, slot: int) -> None:
        self._targets.pop(slot, None)


def _is_mujoco(value: Any, name: str) -> bool:
    return type(value).__module__.partition(".")[0] == "mujoco" and type(value).__name__ == name
