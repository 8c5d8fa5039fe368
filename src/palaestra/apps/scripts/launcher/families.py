"""How to get actions from a script's networks, chosen by their methods. Plugins can add families.

A family is an object with a `name`, `fits(networks)` and `actor(networks, space)`. The actor is called with
observations [1, …] and `deterministic`, and returns an action [1, …]. A plugin names a module with an object `FAMILY`
in `App.script_families`. The module is loaded by its path into the script's interpreter and may import only what is
installed there.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import distributions

from .weights import Mismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Actor = Callable[[Any, bool], Any]
    Networks = dict[str, Any]

Q_NAMES = ("q_network", "q_net", "online_network", "online_net", "policy_net", "qf")
SUPPORTS = ("support", "atoms")  # names of a distribution's support in C51

DETERMINISTIC_VALUES: dict[Any, Any] = {
    distributions.Categorical: lambda one: one.logits.argmax(-1),
    distributions.OneHotCategorical: lambda one: torch.nn.functional.one_hot(
        one.logits.argmax(-1), one.logits.size(-1)
    ),
    distributions.Bernoulli: lambda one: (one.probs > 0.5).to(one.probs.dtype),
    distributions.Normal: lambda one: one.loc,
    distributions.MultivariateNormal: lambda one: one.loc,
    distributions.Beta: lambda one: one.mean,
}


@contextlib.contextmanager
def deterministic_actions(is_wanted: bool) -> Iterator[None]:
    """Inside the block, torch distributions return their mode (mean, for Beta) instead of a sample."""
    before = [(kind, name, kind.__dict__[name]) for kind in DETERMINISTIC_VALUES for name in ("sample", "rsample")
              if is_wanted and name in kind.__dict__]  # fmt: skip
    for kind, name, _ in before:
        setattr(kind, name, _expanded(DETERMINISTIC_VALUES[kind]))
    try:
        yield
    finally:
        for kind, name, method in before:
            setattr(kind, name, method)


def _expanded(value_of: Callable[[Any], Any]) -> Callable[..., Any]:
    def sample(self: Any, sample_shape: Any = ()) -> Any:
        value = value_of(self)
        return value.expand(torch.Size(sample_shape) + value.shape)

    return sample


class PolicyGradient:
    """PPO and similar, discrete and continuous: `get_action_and_value(observations)`."""

    name = "policy gradient"

    def fits(self, networks: Networks) -> bool:
        return any(_required_arguments(one, "get_action_and_value") == 1 for one in networks.values())

    def actor(self, networks: Networks, space: Any) -> Actor:
        del space
        agent = next(one for one in networks.values() if _required_arguments(one, "get_action_and_value") == 1)

        def act(observations: Any, deterministic: bool) -> Any:
            with deterministic_actions(deterministic):
                return agent.get_action_and_value(observations)[0]

        return act


class RecurrentPolicyGradient:
    """PPO with an LSTM: `get_action_and_value(observations, lstm_state, done)` returns the new state last."""

    name = "policy gradient with memory"

    def fits(self, networks: Networks) -> bool:
        return any(map(_is_recurrent, networks.values()))

    def actor(self, networks: Networks, space: Any) -> Actor:
        del space
        agent = next(one for one in networks.values() if hasattr(one, "lstm"))
        memory = [torch.zeros(agent.lstm.num_layers, 1, agent.lstm.hidden_size) for _ in range(2)]
        state: list[Any] = [tuple(memory)]

        def act(observations: Any, deterministic: bool) -> Any:
            with deterministic_actions(deterministic):
                action, *_, state[0] = agent.get_action_and_value(observations, state[0], torch.zeros(1))
            return action

        return act


def _is_recurrent(network: Any) -> bool:
    return hasattr(network, "lstm") and _required_arguments(network, "get_action_and_value") == 3


class TransformerPolicyGradient:
    """PPO with a transformer: `get_action_and_value(observations, memory, memory_mask, memory_indices)`."""

    name = "policy gradient with transformer memory"

    def fits(self, networks: Networks) -> bool:
        return any(map(has_transformer_memory, networks.values()))

    def actor(self, networks: Networks, space: Any) -> Actor:
        memory = TransformerMemory(next(one for one in networks.values() if has_transformer_memory(one)))
        is_one_branch = not space.shape

        def act(observations: Any, deterministic: bool) -> Any:
            with deterministic_actions(deterministic):
                actions = memory.act(observations)
            return actions[:, 0] if is_one_branch else actions

        return act


class StochasticActor:
    """SAC: `actor.get_action(observations)` returns the action, its log probability and, if continuous, the mean."""

    name = "stochastic actor"

    def fits(self, networks: Networks) -> bool:
        return _actor_of(networks, "get_action") is not None

    def actor(self, networks: Networks, space: Any) -> Actor:
        network = _actor_of(networks, "get_action")

        def act(observations: Any, deterministic: bool) -> Any:
            with deterministic_actions(deterministic):
                output = network.get_action(observations)
            action = output[0] if isinstance(output, tuple) else output
            has_mean = isinstance(output, tuple) and len(output) == 3 and output[2].shape == action.shape
            chosen = output[2] if deterministic and has_mean and action.is_floating_point() else action
            return _clip_to_bounds(chosen, space)

        return act


class DeterministicActor:
    """DDPG and TD3: `actor(observations)`, without the script's exploration noise."""

    name = "deterministic actor"

    def fits(self, networks: Networks) -> bool:
        return _actor_of(networks, "forward") is not None

    def actor(self, networks: Networks, space: Any) -> Actor:
        network = _actor_of(networks, "forward")
        return lambda observations, _deterministic: _clip_to_bounds(network(observations), space)


class Distributional:
    """C51: `get_action(observations)` computes the expectation itself."""

    name = "distributional Q-learning"

    def fits(self, networks: Networks) -> bool:
        return _required_arguments(_q_of(networks), "get_action") == 1

    def actor(self, networks: Networks, space: Any) -> Actor:
        del space
        network = _q_of(networks)

        def act(observations: Any, deterministic: bool) -> Any:
            with deterministic_actions(deterministic):
                output = network.get_action(observations)
            return output[0] if isinstance(output, tuple) else output

        return act


class QLearning:
    """The action of the largest value, from values [1, actions] or distributions [1, actions, atoms].

    Also for policies whose only method is `forward`: it returns logits, or the continuous action itself.
    """

    name = "Q-learning"

    def fits(self, networks: Networks) -> bool:
        return _required_arguments(_q_of(networks), "forward") == 1

    def actor(self, networks: Networks, space: Any) -> Actor:
        network = _q_of(networks)

        def act(observations: Any, _deterministic: bool) -> Any:
            output = network(observations)
            if hasattr(space, "low"):
                return _clip_to_bounds(_require_shape(output, space), space)
            return expected_values(output[0] if isinstance(output, tuple) else output, network).argmax(-1)

        return act


def expected_values(values: Any, network: Any) -> Any:
    """Expected values [1, actions] of values, of probabilities over the support, or of quantiles."""
    if values.ndim < 3:
        return values
    supports = [getattr(network, name) for name in SUPPORTS if hasattr(network, name)]
    return (values * supports[0]).sum(-1) if supports else values.mean(-1)


FAMILIES = (
    RecurrentPolicyGradient(),
    TransformerPolicyGradient(),
    PolicyGradient(),
    StochasticActor(),
    DeterministicActor(),
    Distributional(),
    QLearning(),
)


def family_of(networks: Networks, others: list[Any]) -> Any:
    """The first family that fits, plugins first; None without any."""
    return next((family for family in (*others, *FAMILIES) if family.fits(networks)), None)


def _required_arguments(network: Any, method: str) -> int:
    """Number of required positional arguments; -1 if there is no such method."""
    function = getattr(network, method, None)
    if function is None or (method == "forward" and type(network).forward is torch.nn.Module.forward):
        return -1
    parameters = inspect.signature(function).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(1 for one in parameters if one.default is inspect.Parameter.empty and one.kind in positional)


def _actor_of(networks: Networks, method: str) -> Any:
    named = [one for name, one in networks.items() if "actor" in name.lower() or "Actor" in type(one).__name__]
    return next((one for one in named if _required_arguments(one, method) == 1), None)


def _q_of(networks: Networks) -> Any:
    for name in Q_NAMES:
        if name in networks:
            return networks[name]
    return next(iter(networks.values()), None)


def _require_shape(output: Any, space: Any) -> Any:
    if isinstance(output, torch.Tensor) and output.shape[1:] == space.shape:
        return output
    shape = list(output.shape[1:]) if isinstance(output, torch.Tensor) else type(output).__name__
    raise Mismatch(
        f"the network returns shape {shape}, an action has shape {list(space.shape)}; the network must have a method "
        "get_action(x) or get_action_and_value(x), or return the action itself"
    )


def _clip_to_bounds(action: Any, space: Any) -> Any:
    """Clips to the bounds of a Box space, as scripts do after adding noise."""
    if not hasattr(space, "low"):
        return action
    return torch.as_tensor(np.clip(action.detach().cpu().numpy(), space.low, space.high))


PARAMETERS = ["memory", "memory_mask", "memory_indices"]  # after the observation
WINDOW_ARGUMENT = "trxl_memory_length"  # argument of the script: steps that the agent attends to
WIDTH_ARGUMENT = "trxl_dim"


def has_transformer_memory(network: Any) -> bool:
    function = getattr(network, "get_action_and_value", None)
    if function is None or not hasattr(getattr(network, "transformer", None), "transformer_layers"):
        return False
    return list(inspect.signature(function).parameters)[1:4] == PARAMETERS


class TransformerMemory:
    """Memory of one episode. `vectors`: [1, steps, layers, width], 0 for steps to come."""

    def __init__(self, agent: Any) -> None:
        arguments = getattr(sys.modules.get(type(agent).__module__), "args", None)
        if not hasattr(arguments, WINDOW_ARGUMENT) or not hasattr(arguments, WIDTH_ARGUMENT):
            raise Mismatch(
                f"{type(agent).__name__} has transformer memory; the script must have the arguments "
                f"{WINDOW_ARGUMENT} (steps that it attends to) and {WIDTH_ARGUMENT} (width of a vector)"
            )
        self._agent = agent
        self._length = min(int(getattr(arguments, WINDOW_ARGUMENT)), int(agent.max_episode_steps))
        layers, width = len(agent.transformer.transformer_layers), int(getattr(arguments, WIDTH_ARGUMENT))
        self.vectors = torch.zeros(1, int(agent.max_episode_steps), layers, width)
        self._step = 0

    def act(self, observations: Any) -> Any:
        """Actions [1, branches]; stores the new memory of this step."""
        last = self.vectors.shape[1] - 1
        step = min(self._step, last)  # an episode longer than max_episode_steps overwrites its last entry
        first = max(0, step - self._length + 1)
        indices = torch.arange(first, first + self._length).unsqueeze(0)  # [1, window]
        mask = torch.arange(self._length).unsqueeze(0) < min(step, self._length - 1)  # [1, window]: True for past steps
        window = self.vectors[:, indices[0]]
        action, *_, new = self._agent.get_action_and_value(observations, window, mask, indices)
        self.vectors[:, step] = new
        self._step += 1
        return action
