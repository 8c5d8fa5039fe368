"""Learning from a teacher beside learning from rewards (kickstarting, Schmitt et al.).

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

from palaestra.algorithms.ppo.minibatches import Lesson
from palaestra.algorithms.schedules import value_at
from palaestra.core.errors import UsageError
from palaestra.envs.describe import describe_space
from palaestra.policies import features
from palaestra.policies.normalise import EPSILON

if TYPE_CHECKING:
    from palaestra.algorithms.ppo.loss import Slopes
    from palaestra.algorithms.ppo.minibatches import Minibatch
    from palaestra.algorithms.rollout import Rollout
    from palaestra.config.ppo_options import KickstartConfig
    from palaestra.core.spaces import EnvInterface
    from palaestra.policies.agent import Agent
    from palaestra.policies.distributions import Distribution


class LessonWeights(NamedTuple):
    action: float
    value: float

    @property
    def are_zero(self) -> bool:
        return self.action == 0 and self.value == 0


class LessonTerms(NamedTuple):
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
    def teach(self, rollout: Rollout, student: Agent) -> Lesson:
        """Fields [T, B, …]. To be called once per rollout, in order: the teacher's memory goes on from the last one."""
        distribution, values, self._memory = self._agent(rollout.observations, self._memory, rollout.starts)
        return Lesson(distribution.sample(self._generator), values * _scale(self._agent) / _scale(student))

    def capture(self) -> dict[str, Any]:
        memory = {name: part.cpu().clone() for name, part in self._memory.items()}
        return {"memory": memory, "generator": self._generator.get_state()}

    def restore(self, saved: dict[str, Any]) -> None:
        self._memory = _on(saved["memory"], self._device)
        self._generator.set_state(saved["generator"])


class Tuition:
    """One update's share of a teacher: adds the lesson to each minibatch's loss and remembers how large it was."""

    def __init__(self, lesson: Lesson, weights: LessonWeights) -> None:
        self.lesson = lesson  # [T, B, …]
        self._weights = weights
        self._terms: list[LessonTerms] = []

    def added(
        self, slopes: Slopes, value: Tensor, distribution: Distribution, minibatch: Minibatch
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The further root (log-probability of the teacher's actions), and the slopes of all four roots."""
        assert minibatch.lesson is not None, "the columns were cut with the lesson"
        log_prob = distribution.log_prob(minibatch.lesson.actions)
        (of_log_prob, of_value), terms = lesson_loss(
            log_prob, value, minibatch.lesson, self._weights, minibatch.weights
        )
        self._terms.append(terms)
        return log_prob, (slopes.log_prob, slopes.entropy, slopes.value + of_value, of_log_prob)

    def metrics(self) -> dict[str, float]:
        """Means over the minibatches, unweighted by the coefficients."""
        return {
            f"kickstart/{name}": float(torch.stack(values).mean())
            for name, values in zip(LessonTerms._fields, zip(*self._terms, strict=True), strict=True)
        }


def lesson_weights(config: KickstartConfig, progress: float) -> LessonWeights:
    return LessonWeights(value_at(config.action_coefficient, progress), value_at(config.value_coefficient, progress))


@torch.no_grad()
def lesson_loss(
    log_prob: Tensor, value: Tensor, lesson: Lesson, weights: LessonWeights, importance: Tensor | None
) -> tuple[tuple[Tensor, Tensor], LessonTerms]:
    """Slopes of the loss with respect to `log_prob` (of the teacher's actions) and `value`, and its terms; [L, M]."""
    error = value - lesson.values
    share = torch.full_like(error, 1.0 / error.numel())
    if importance is not None:
        share *= importance
    slopes = (share * -weights.action, share * error * weights.value)
    return slopes, LessonTerms(-(share * log_prob).sum(), 0.5 * (share * error.square()).sum())


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
