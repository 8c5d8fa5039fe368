import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from palaestra.algorithms.advantages import estimate_advantages
from palaestra.algorithms.ppo.kickstart import (
    Distillation,
    Teacher,
    TeacherLossWeights,
    teacher_loss,
    teacher_loss_weights,
)
from palaestra.algorithms.ppo.minibatches import TeacherTargets
from palaestra.algorithms.ppo.update import update
from palaestra.algorithms.rollout import Rollout, collect_rollout
from palaestra.config.ppo_options import KickstartConfig
from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface, FeatureSpec
from palaestra.policies.agent import Agent
from palaestra.policies.base import Policy, PolicyOutput
from palaestra.policies.distributions import Categorical
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

INTERFACE = EnvInterface(BoxSpec((2,)), DiscreteSpec(3))


class Counting(Policy):
    """Its value is the number of steps since the episode began, which only memory can know."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def initial_memory(self, batch_size):
        return {"steps": torch.zeros(batch_size)}

    def forward(self, observation, memory, starts=None):
        steps, values = memory["steps"], []
        for step in range(observation.shape[0]):
            steps = steps.masked_fill(starts[step], 0.0) + 1
            values.append(steps)
        return PolicyOutput(
            Categorical(observation.new_zeros(*observation.shape[:2], 3)), torch.stack(values), {"steps": steps}
        )


def agent_of(network: Policy, interface: EnvInterface = INTERFACE, *, scaled: bool = False) -> Agent:
    return Agent(network, interface, normalize_observations=False, normalize_returns=scaled)


def rollout_with(starts: list[list[bool]]) -> Rollout:
    begin = torch.tensor(starts)
    blank = torch.zeros(begin.shape)
    return Rollout(torch.zeros(*begin.shape, 2), blank, blank, blank, blank, blank, begin, begin, {})


def test_a_teacher_that_knows_the_features_by_other_ids_sees_them_under_its_own():
    """It values what it sees: the entry that it calls `near` is the second one here."""

    class Near(Policy):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def initial_memory(self, batch_size):
            return {}

        def forward(self, observation, memory, starts=None):
            return PolicyOutput(Categorical(observation.new_zeros(*observation.shape[:2], 3)), observation[..., 0], {})

    def called(*names):
        return replace(INTERFACE, features=tuple(FeatureSpec(name, index) for index, name in enumerate(names)))

    teacher = Teacher(agent_of(Near(), called("near", "far")), called("far", "near"), env_count=1, seed=0)
    rollout = replace(rollout_with([[True]]), observations=torch.tensor([[[7.0, 5.0]]]))
    assert teacher.label(rollout, agent_of(Counting())).values.tolist() == [[5.0]]


def test_the_loss_is_cross_entropy_with_the_teachers_actions_plus_half_the_squared_distance_of_values():
    generator = torch.Generator().manual_seed(0)
    draw = lambda: torch.randn(3, 7, generator=generator, dtype=torch.float64)  # noqa: E731
    log_prob, value = draw().requires_grad_(), draw().requires_grad_()
    teacher_targets, weights = TeacherTargets(torch.zeros(3, 7), draw()), TeacherLossWeights(0.7, 0.3)
    for importance in (None, draw().abs()[:1]):
        factor = 1.0 if importance is None else importance
        action_loss = -(factor * log_prob).mean()
        value_loss = 0.5 * (factor * (value - teacher_targets.values) ** 2).mean()
        expected = torch.autograd.grad(0.7 * action_loss + 0.3 * value_loss, (log_prob, value))
        gradients, terms = teacher_loss(log_prob, value, teacher_targets, weights, importance)
        for mine, other in zip((*gradients, *terms), (*expected, action_loss, value_loss), strict=True):
            assert torch.allclose(mine, other)


def test_the_teacher_keeps_its_memory_from_rollout_to_rollout_and_forgets_where_episodes_begin():
    teacher = Teacher(agent_of(Counting()), INTERFACE, env_count=2, seed=0)
    student = agent_of(Counting())
    first = teacher.label(rollout_with([[True, True], [False, False], [False, True]]), student)
    assert first.values.tolist() == [[1, 1], [2, 2], [3, 1]]
    second = teacher.label(rollout_with([[False, False], [True, False]]), student)
    assert second.values.tolist() == [[4, 2], [1, 3]]


def test_the_teachers_actions_follow_its_distribution():
    class Biased(Counting):
        def forward(self, observation, memory, starts=None):
            output = super().forward(observation, memory, starts)
            logits = torch.tensor([0.2, 0.5, 0.3]).log().expand(*observation.shape[:2], 3)
            return output._replace(distribution=Categorical(logits))

    teacher = Teacher(agent_of(Biased()), INTERFACE, env_count=40, seed=0)
    actions = teacher.label(rollout_with([[True] * 40] * 500), agent_of(Counting())).actions
    shares = torch.bincount(actions.flatten(), minlength=3) / actions.numel()
    assert torch.allclose(shares, torch.tensor([0.2, 0.5, 0.3]), atol=0.015)


def test_values_are_put_into_the_students_scale_of_rewards():
    teacher_agent, student = agent_of(Counting(), scaled=True), agent_of(Counting(), scaled=True)
    teacher_agent.return_scaler.moments.variance.fill_(9.0)  # one of its units is 3 in rewards
    student.return_scaler.moments.variance.fill_(4.0)
    teacher = Teacher(teacher_agent, INTERFACE, env_count=1, seed=0)
    assert float(teacher.label(rollout_with([[True]]), student).values) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("interface", "words"),
    [
        (EnvInterface(BoxSpec((5,)), DiscreteSpec(3)), r"observations are box \[5\] .*, this .* box \[2\]"),
        (EnvInterface(BoxSpec((2,)), DiscreteSpec(4)), r"actions are 4 choices, this .* 3 choices"),
    ],
)
def test_a_teacher_with_other_spaces_is_refused_with_both_named(interface, words):
    with pytest.raises(UsageError, match=words):
        Teacher(agent_of(Counting(), interface), INTERFACE, env_count=1, seed=0)


def test_a_restored_teacher_goes_on_with_the_same_memory_and_the_same_dice():
    one = Teacher(agent_of(Counting()), INTERFACE, env_count=3, seed=0)
    student, rollout = agent_of(Counting()), rollout_with([[True, False, False]] * 4)
    one.label(rollout, student)
    other = Teacher(agent_of(Counting()), INTERFACE, env_count=3, seed=99)
    other.restore(copy.deepcopy(one.capture()))
    mine, theirs = one.label(rollout, student), other.label(rollout, student)
    assert torch.equal(mine.actions, theirs.actions)
    assert torch.equal(mine.values, theirs.values)


def test_coefficients_follow_their_schedules():
    config = KickstartConfig(
        teacher="x", action_coefficient={"start": 2.0, "end": 0.0, "kind": "linear"}, value_coefficient=0.0
    )
    assert teacher_loss_weights(config, 0.25) == TeacherLossWeights(1.5, 0.0)
    assert not teacher_loss_weights(config, 0.25).are_zero
    assert teacher_loss_weights(config, 1.0).are_zero


SMALL = TrainConfig(
    ppo={"env_count": 4, "horizon": 40, "minibatch_size": 160, "update_epochs": 1, "max_grad_norm": 1e9}
)


def test_one_step_with_a_teacher_has_the_gradient_of_the_whole_loss_written_out():
    state, other = new_training_state(SMALL), new_training_state(SMALL)
    rollout, _, _ = collect_rollout(
        state.algorithm.policy(),
        state.envs,
        state.algorithm.buffer,
        state.algorithm.tensors.memory,
        state.algorithm.tensors.sampler,
    )
    advantages = estimate_advantages(rollout, 0.99, 0.95)
    generator = torch.Generator().manual_seed(1)
    teacher_targets = TeacherTargets(
        torch.randint(2, (40, 4), generator=generator), torch.randn(40, 4, generator=generator)
    )
    distillation = Distillation(teacher_targets, TeacherLossWeights(0.8, 0.4))
    update(
        state.algorithm.policy(),
        state.algorithm.tensors.optimizer,
        rollout,
        advantages,
        SMALL.ppo,
        0.0,
        state.algorithm.shuffler,
        distillation=distillation,
    )

    distribution, value, _ = other.algorithm.policy()(rollout.observations, {}, None)
    normal = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    ratio = (distribution.log_prob(rollout.actions) - rollout.log_probs).exp()
    loss = -(normal * ratio).mean() + 0.25 * (value - advantages - rollout.values).square().mean()
    loss = loss - 0.01 * distribution.entropy().mean() - 0.8 * distribution.log_prob(teacher_targets.actions).mean()
    loss = loss + 0.4 * 0.5 * (value - teacher_targets.values).square().mean()
    expected = torch.autograd.grad(loss, list(other.algorithm.policy().parameters()))
    for parameter, gradient in zip(state.algorithm.policy().parameters(), expected, strict=True):
        assert torch.allclose(parameter.grad, gradient, atol=1e-5)
    assert set(distillation.metrics()) == {"kickstart/action_loss", "kickstart/value_loss"}


def test_a_student_comes_to_act_like_its_teacher():
    """The teacher_targets outweighs the rewards, which would have it balance the pole instead."""
    config = TrainConfig(
        total_steps=2560,
        ppo={
            "env_count": 4,
            "horizon": 32,
            "minibatch_size": 32,
            "learning_rate": 0.01,
            "entropy_coefficient": 0.0,
            "kickstart": {"teacher": "given", "action_coefficient": 10.0, "value_coefficient": 0.0},
        },
    )

    class AlwaysRight(Policy):
        def __init__(self) -> None:
            super().__init__()
            self.logits = nn.Parameter(torch.tensor([-4.0, 4.0]))

        def forward(self, observation, memory, starts=None):
            rows = observation.shape[:2]
            return PolicyOutput(Categorical(self.logits.expand(*rows, 2)), observation.new_zeros(rows), memory)

    interface = new_training_state(config).envs.interface
    state = new_training_state(config, teacher=agent_of(AlwaysRight(), interface))
    reports = list(train(state))
    assert reports[0].metrics["kickstart/action_loss"] > 0.2
    assert reports[-1].metrics["kickstart/action_loss"] < 0.05
