"""Pictures from a worker process, asked for in this one."""

import numpy as np

from palaestra.config.env import EnvConfig
from palaestra.envs.make import make_env
from palaestra.envs.share import Share
from palaestra.envs.worker_view import Studio


def studio(monkeypatch, request, **kwargs):
    monkeypatch.syspath_prepend(str(request.path.parent))
    share = Share(lambda: make_env(EnvConfig(id="odd_envs:Odd-v0", kwargs=kwargs)), 2, None, first_index=4)
    out = np.zeros((2, 2), np.float32)
    share.reset([10, 20], out)
    share.step(np.array([3, 4]), out)
    return Studio(share)


def test_an_environment_is_drawn_with_the_numbers_of_its_episode(monkeypatch, request):
    drawn = studio(monkeypatch, request).draw(5)
    assert drawn["picture"].shape == (8, 6, 3)
    assert np.all(drawn["picture"] == 21)  # its seed and its step
    assert (drawn["total_reward"], drawn["length"]) == (4.0, 1)


def test_what_cannot_be_drawn_is_told_and_not_raised(monkeypatch, request):
    assert studio(monkeypatch, request, what="blind").draw(4) == {"failure": "RuntimeError: nothing to see"}
