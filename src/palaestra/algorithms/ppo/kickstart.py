"""Trains on a teacher's actions and values beside rewards (kickstarting, Schmitt et al.).

The teacher is a frozen policy that sees what the student sees and keeps a memory of its own. For every observation of a
rollout it names one action, drawn from its own distribution, and a value. The student's loss gains

    action_coefficient * mean of -log student(teacher's action)
    value_coefficient  * mean of 1/2 (student's value - teacher's value)^2

The first is the cross-entropy of the two policies, estimated by one draw per observation: it needs nothing of a
distribution but its log-probability, so every action space is served alike. A teacher that was trained on scaled
rewards has its values put into the student's scale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Generator, Tensor

from palaestra.algorithms.ppo.minibatches import TeacherTargets
from palaestra.algorithms.schedules import value_at
from palaestra.core.errors import UsageError
from palaestra.envs.spaces import describe_space
from palaestra.policies import features
from palaestra.policies.normalise import EPSILON

if TYPE_CHECKING:
    from palaestra.algorithms.ppo.loss import LossGradients
    from palaestra.algorithms.ppo.minibatches import Minibatch
    from palaestra.algorithms.rollout import Rollout
    from palaestra.config.ppo_options import KickstartConfig
    from palaestra.core.spaces import EnvInterface
    from palaestra.policies.agent import Agent
    from palaestra.policies.distributions import Distribution


class TeacherLossWeights(NamedTuple):
    action: float
    value: float

    @property
    def are_zero(self) -> bool:
        return self.action == 0 and self.value == 0


class TeacherLossTerms(NamedTuple):
    action_loss: Tensor
    value_loss: Tensor


class Teacher:
    def __init__(self, agent: Agent, student: EnvInterface, env_count: int, seed: int) -> None:
        refuse_other_spaces(agent.interface, student)
        self._device = next(agent.parameters()).device
        known = agent.eval().requires_grad_(False)  # noqa: FBT003
        self._agent = known.playing_in(student).to(self._device)  # it may know the same features by other ids
        self._memory = _on(agent.initial_memory(env_count), self._device)
        self._generator = Generator(self._device)
        self._generator.manual_seed(seed)

    @torch.no_grad()
    def label(self, rollout: Rollout, student: Agent) -> TeacherTargets:
        """Fields [T, B, …]. Call it once per rollout, in order: the teacher's memory continues from the last one."""
        distribution, values, self._memory = self._agent(rollout.observations, self._memory, rollout.starts)
        return TeacherTargets(distribution.sample(self._generator), values * _scale(self._agent) / _scale(student))

    def capture(self) -> dict[str, Any]:
        memory = {name: part.cpu().clone() for name, part in self._memory.items()}
        return {"memory": memory, "generator": self._generator.get_state()}

    def restore(self, saved: dict[str, Any]) -> None:
        self._memory = _on(saved["memory"], self._device)
        self._generator.set_state(saved["generator"])


class Distillation:
    """Adds the teacher's loss to that of each minibatch of one update, and collects its terms."""

    def __init__(self, teacher_targets: TeacherTargets, weights: TeacherLossWeights) -> None:
        self.teacher_targets = teacher_targets  # [T, B, …]
        self._weights = weights
        self._terms: list[TeacherLossTerms] = []

    def add_gradients(
        self, gradients: LossGradients, value: Tensor, distribution: Distribution, minibatch: Minibatch
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Log-probabilities of the teacher's actions, and the gradients of the whole loss with respect to four outputs:
        log-probability, entropy, value, and that."""
        assert minibatch.teacher_targets is not None, "the rollout was split with them"
        log_prob = distribution.log_prob(minibatch.teacher_targets.actions)
        (of_log_prob, of_value), terms = teacher_loss(
            log_prob, value, minibatch.teacher_targets, self._weights, minibatch.weights
        )
        self._terms.append(terms)
        return log_prob, (gradients.log_prob, gradients.entropy, gradients.value + of_value, of_log_prob)

    def metrics(self) -> dict[str, float]:
        """Means over the minibatches, unweighted by the coefficients."""
        return {
            f"kickstart/{name}": float(torch.stack(values).mean())
            for name, values in zip(TeacherLossTerms._fields, zip(*self._terms, strict=True), strict=True)
        }


def teacher_loss_weights(config: KickstartConfig, progress: float) -> TeacherLossWeights:
    return TeacherLossWeights(
        value_at(config.action_coefficient, progress), value_at(config.value_coefficient, progress)
    )


@torch.no_grad()
def teacher_loss(
    log_prob: Tensor,
    value: Tensor,
    teacher_targets: TeacherTargets,
    weights: TeacherLossWeights,
    importance: Tensor | None,
) -> tuple[tuple[Tensor, Tensor], TeacherLossTerms]:
    """Gradients with respect to `log_prob` (of the teacher's actions) and `value`, [L, M], and the loss's two terms."""
    error = value - teacher_targets.values
    share = torch.full_like(error, 1.0 / error.numel())
    if importance is not None:
        share *= importance
    gradients = (share * -weights.action, share * error * weights.value)
    return gradients, TeacherLossTerms(-(share * log_prob).sum(), 0.5 * (share * error.square()).sum())


def refuse_other_spaces(teacher: EnvInterface, student: EnvInterface) -> None:
    """Spaces that differ in more than their named features."""
    try:
        features.refuse_other_spaces(teacher, student)
    except UsageError as error:
        sees_alike = teacher.observation_space == student.observation_space
        what, space = ("actions", "action_space") if sees_alike else ("observations", "observation_space")
        of_teacher, of_student = (describe_space(getattr(each, space)) for each in (teacher, student))
        raise UsageError(
            f"The teacher's {what} are {of_teacher}, this environment's are {of_student}.",
            "ppo.kickstart.teacher must have been trained with the same spaces.",
        ) from error


def _scale(agent: Agent) -> Tensor | float:
    """What one unit of the agent's values is in rewards."""
    scaler = agent.return_scaler
    return 1.0 if scaler is None else (scaler.moments.variance + EPSILON).sqrt().float()


def _on(memory: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    return {name: part.to(device) for name, part in memory.items()}
