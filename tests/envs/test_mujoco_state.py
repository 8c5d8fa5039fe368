from __future__ import annotations

import numpy as np
import pytest

from palaestra.config.env import EnvConfig
from palaestra.core.errors import DamagedFile
from palaestra.envs import mujoco_state
from palaestra.envs.make import make_env

mujoco = pytest.importorskip("mujoco", reason="the extra 'mujoco' is not installed")

FALLING = """
<mujoco><worldbody><geom type="plane" size="5 5 1"/>
<body pos="0 0 0.3"><freejoint/><geom type="box" size=".1 .1 .1"/></body></worldbody></mujoco>
"""


def falling_box(steps):
    model = mujoco.MjModel.from_xml_string(FALLING)
    data = mujoco.MjData(model)
    data.qvel[:] = [0.3, 0.1, 0, 1, 2, 3]
    for _ in range(steps):
        mujoco.mj_step(model, data)
    return data


@pytest.mark.parametrize("steps", [0, 5, 150, 400])
def test_a_box_falls_on_as_it_would_have(steps):
    original = falling_box(steps)
    state = {
        name: np.copy(value) if isinstance(value, np.ndarray) else value
        for name, value in mujoco_state.read_simulation(original).items()
    }
    copy = falling_box(33)
    mujoco_state.write_simulation(copy, state)
    for _ in range(200):
        assert copy.xpos.tobytes() == original.xpos.tobytes()
        assert copy.qpos.tobytes() == original.qpos.tobytes()
        assert copy.time == original.time
        mujoco.mj_step(original.model, original)
        mujoco.mj_step(copy.model, copy)


def test_computing_the_derived_fields_anew_would_not_be_exact():
    """The reason why they are saved: after a step, xpos is that of the position before it."""
    data = falling_box(5)
    before = data.xpos.copy()
    mujoco.mj_forward(data.model, data)
    assert not np.array_equal(before, data.xpos)


def test_a_state_of_another_model_is_refused():
    state = mujoco_state.read_simulation(falling_box(1))
    ant = make_env(EnvConfig(id="Ant-v5")).unwrapped
    with pytest.raises(DamagedFile, match="does not fit this model"):
        mujoco_state.write_simulation(ant.data, state)


def test_a_simulation_without_engine_plugins_can_be_captured():
    data = falling_box(0)
    assert mujoco_state.why_not_simulation(data) == ""
