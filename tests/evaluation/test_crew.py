from types import SimpleNamespace

import numpy as np
import pytest
import torch

from palaestra.config.policy import PolicyConfig
from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, EnvInterface
from palaestra.evaluation.crew import Crew, hire
from palaestra.policies.base import Policy, PolicyOutput
from palaestra.policies.build import build_policy

BYTES = BoxSpec((3,), "uint8", (0.0,), (255.0,))
PLAIN = EnvInterface(BYTES, DiscreteSpec(6))
NAMED = EnvInterface(DictSpec((("left", BYTES), ("right", BYTES))), DiscreteSpec(6))


def policy_for(interface, **settings):
    torch.manual_seed(0)
    return build_policy(PolicyConfig(graph="mlp", settings={"hidden": [8], **settings}), interface).eval()


def rows(count, seed=0):
    return np.random.default_rng(seed).integers(0, 255, (count, 3), dtype=np.uint8)


def test_every_player_gets_the_action_that_it_would_get_alone():
    policy = policy_for(PLAIN)
    seen = torch.from_numpy(rows(5))[None]
    with torch.inference_mode():
        together = Crew(policy, 5, 0, deterministic=True).act(seen)
        alone = [Crew(policy, 1, 0, deterministic=True).act(seen[:, [row]])[0] for row in range(5)]
    assert together.tolist() == alone


class Counts(Policy):
    """Plays how often this player was asked before, plus what it sees first."""

    interface = PLAIN

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def initial_memory(self, batch_size):
        return {"asked": torch.zeros(batch_size, dtype=torch.int64)}

    def forward(self, observation, memory, starts=None):
        actions = observation[..., 0].long() + memory["asked"]
        return PolicyOutput(SimpleNamespace(mode=lambda: actions), actions, {"asked": memory["asked"] + 1})


def test_memory_is_kept_from_step_to_step_and_each_has_its_own():
    crew = Crew(Counts(), 2, 3, deterministic=True)
    seen = torch.tensor([[[0, 9, 9], [2, 9, 9]]], dtype=torch.uint8)
    assert [crew.act(seen).tolist() for _ in range(3)] == [[0, 2], [1, 3], [2, 4]]


@pytest.mark.parametrize("interface", [PLAIN, NAMED])
def test_a_hired_crew_takes_the_arrays_of_a_batch(interface):
    act = hire(policy_for(interface), interface, 4, 7)
    seen = rows(4) if interface is PLAIN else {"left": rows(4), "right": rows(4, 1)}
    drawn = [act(seen) for _ in range(40)]
    assert drawn[0].shape == (4,)
    assert {int(action) for actions in drawn for action in actions} == set(range(6))  # drawn, not the likeliest
    again = hire(policy_for(interface), interface, 4, 7)
    np.testing.assert_array_equal(np.array(drawn), np.array([again(seen) for _ in range(40)]))


def test_a_policy_for_other_spaces_is_not_hired():
    with pytest.raises(UsageError):
        hire(policy_for(PLAIN), NAMED, 4, 7)
