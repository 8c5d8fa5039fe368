"""How a script's networks act, by what they can do: a small registry, in which others can be put before ours.

A family is an object with a `name`, `fits(networks)` and `actor(networks, space)`; what it gives is called with
observations [1, …] and whether the likeliest action is wanted, and returns an action [1, …]. Another package names a
module with such an object `FAMILY` in `App.script_families`. It is loaded by its path into the script's own
interpreter, so it may import only what is there.
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
SUPPORTS = ("support", "atoms")  # the returns that the atoms of a distribution stand for

LIKELIEST: dict[Any, Any] = {
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
def likeliest(is_wanted: bool) -> Iterator[None]:
    """For as long as this lasts, distributions give their likeliest value instead of drawing one."""
    before = [(kind, name, kind.__dict__[name]) for kind in LIKELIEST for name in ("sample", "rsample")
              if is_wanted and name in kind.__dict__]  # fmt: skip
    for kind, name, _ in before:
        setattr(kind, name, _expanded(LIKELIEST[kind]))
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
    """PPO and its kin, discrete and continuous: `get_action_and_value(observations)`."""

    name = "policy gradient"

    def fits(self, networks: Networks) -> bool:
        return any(_needed(one, "get_action_and_value") == 1 for one in networks.values())

    def actor(self, networks: Networks, space: Any) -> Actor:
        del space
        agent = next(one for one in networks.values() if _needed(one, "get_action_and_value") == 1)

        def act(observations: Any, is_likeliest: bool) -> Any:
            with likeliest(is_likeliest):
                return agent.get_action_and_value(observations)[0]

        return act


class RecurrentPolicyGradient:
    """The same with an LSTM: `get_action_and_value(observations, lstm_state, done)`, which gives the state at last."""

    name = "policy gradient with memory"

    def fits(self, networks: Networks) -> bool:
        return any(hasattr(one, "lstm") and _needed(one, "get_action_and_value") == 3 for one in networks.values())

    def actor(self, networks: Networks, space: Any) -> Actor:
        del space
        agent = next(one for one in networks.values() if hasattr(one, "lstm"))
        memory = [torch.zeros(agent.lstm.num_layers, 1, agent.lstm.hidden_size) for _ in range(2)]
        state: list[Any] = [tuple(memory)]

        def act(observations: Any, is_likeliest: bool) -> Any:
            with likeliest(is_likeliest):
                action, *_, state[0] = agent.get_action_and_value(observations, state[0], torch.zeros(1))
            return action

        return act


class TransformerPolicyGradient:
    """The same with a transformer: `get_action_and_value(observations, memory, memory_mask, memory_indices)`."""

    name = "policy gradient with a transformer's memory"

    def fits(self, networks: Networks) -> bool:
        return any(map(has_transformer_memory, networks.values()))

    def actor(self, networks: Networks, space: Any) -> Actor:
        memory = TransformerMemory(next(one for one in networks.values() if has_transformer_memory(one)))
        is_one_branch = not space.shape

        def act(observations: Any, is_likeliest: bool) -> Any:
            with likeliest(is_likeliest):
                actions = memory.act(observations)
            return actions[:, 0] if is_one_branch else actions

        return act


class StochasticActor:
    """SAC: `actor.get_action(observations)` gives an action, its logarithm and, of continuous ones, a mean."""

    name = "actor with noise of its own"

    def fits(self, networks: Networks) -> bool:
        return _actor_of(networks, "get_action") is not None

    def actor(self, networks: Networks, space: Any) -> Actor:
        network = _actor_of(networks, "get_action")

        def act(observations: Any, is_likeliest: bool) -> Any:
            with likeliest(is_likeliest):
                given = network.get_action(observations)
            action = given[0] if isinstance(given, tuple) else given
            has_mean = isinstance(given, tuple) and len(given) == 3 and given[2].shape == action.shape
            chosen = given[2] if is_likeliest and has_mean and action.is_floating_point() else action
            return _within(chosen, space)

        return act


class DeterministicActor:
    """DDPG and TD3: `actor(observations)`; the noise that explores is the script's, and stays away."""

    name = "deterministic actor"

    def fits(self, networks: Networks) -> bool:
        return _actor_of(networks, "forward") is not None

    def actor(self, networks: Networks, space: Any) -> Actor:
        network = _actor_of(networks, "forward")
        return lambda observations, _is_likeliest: _within(network(observations), space)


class Distributional:
    """C51: `get_action(observations)` takes the expectation itself."""

    name = "distribution of returns"

    def fits(self, networks: Networks) -> bool:
        return _needed(_q_of(networks), "get_action") == 1

    def actor(self, networks: Networks, space: Any) -> Actor:
        del space
        network = _q_of(networks)

        def act(observations: Any, is_likeliest: bool) -> Any:
            with likeliest(is_likeliest):
                given = network.get_action(observations)
            return given[0] if isinstance(given, tuple) else given

        return act


class QLearning:
    """The action of the largest value: of values [1, actions], or of distributions [1, actions, atoms].

    A policy without further methods gives logits, which are taken so too, or the continuous action itself.
    """

    name = "Q-learning"

    def fits(self, networks: Networks) -> bool:
        return _needed(_q_of(networks), "forward") == 1

    def actor(self, networks: Networks, space: Any) -> Actor:
        network = _q_of(networks)

        def act(observations: Any, _is_likeliest: bool) -> Any:
            given = network(observations)
            if hasattr(space, "low"):
                return _within(_of_shape(given, space), space)
            return expected(given[0] if isinstance(given, tuple) else given, network).argmax(-1)

        return act


def expected(values: Any, network: Any) -> Any:
    """[1, actions], also where `values` are chances of each return, or quantiles of it."""
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
    """The first that fits, those of plugins before ours; None when nobody knows how these act."""
    return next((family for family in (*others, *FAMILIES) if family.fits(networks)), None)


def _needed(network: Any, method: str) -> int:
    """How many arguments it cannot do without; -1 when there is no such method."""
    function = getattr(network, method, None)
    if function is None or (method == "forward" and type(network).forward is torch.nn.Module.forward):
        return -1
    parameters = inspect.signature(function).parameters.values()
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(1 for one in parameters if one.default is inspect.Parameter.empty and one.kind in plain)


def _actor_of(networks: Networks, method: str) -> Any:
    named = [one for name, one in networks.items() if "actor" in name.lower() or "Actor" in type(one).__name__]
    return next((one for one in named if _needed(one, method) == 1), None)


def _q_of(networks: Networks) -> Any:
    for name in Q_NAMES:
        if name in networks:
            return networks[name]
    return next(iter(networks.values()), None)


def _of_shape(given: Any, space: Any) -> Any:
    if isinstance(given, torch.Tensor) and given.shape[1:] == space.shape:
        return given
    shape = list(given.shape[1:]) if isinstance(given, torch.Tensor) else type(given).__name__
    raise Mismatch(
        f"the network gives {shape} where an action has the shape {list(space.shape)}; it must have a method "
        "get_action(x) or get_action_and_value(x), or give the action itself"
    )


def _within(action: Any, space: Any) -> Any:
    """Scripts cut what their noise adds; where there are no bounds, nothing is cut."""
    if not hasattr(space, "low"):
        return action
    return torch.as_tensor(np.clip(action.detach().cpu().numpy(), space.low, space.high))


PARAMETERS = ["memory", "memory_mask", "memory_indices"]  # after the observation
WINDOW = "trxl_memory_length"  # argument of the script: steps that the agent sees at once
WIDTH = "trxl_dim"


def has_transformer_memory(network: Any) -> bool:
    function = getattr(network, "get_action_and_value", None)
    if function is None or not hasattr(getattr(network, "transformer", None), "transformer_layers"):
        return False
    return list(inspect.signature(function).parameters)[1:4] == PARAMETERS


class TransformerMemory:
    """Of one episode. `vectors`: [1, steps, layers, width], 0 where nothing has happened yet."""

    def __init__(self, agent: Any) -> None:
        arguments = getattr(sys.modules.get(type(agent).__module__), "args", None)
        if not hasattr(arguments, WINDOW) or not hasattr(arguments, WIDTH):
            raise Mismatch(
                f"{type(agent).__name__} has a transformer's memory; the script must have the arguments "
                f"{WINDOW} (steps that it sees) and {WIDTH} (width of a vector)"
            )
        self._agent = agent
        self._length = min(int(getattr(arguments, WINDOW)), int(agent.max_episode_steps))
        layers, width = len(agent.transformer.transformer_layers), int(getattr(arguments, WIDTH))
        self.vectors = torch.zeros(1, int(agent.max_episode_steps), layers, width)
        self._step = 0

    def act(self, observations: Any) -> Any:
        """Actions [1, branches]; what the agent remembers of this step is kept."""
        last = self.vectors.shape[1] - 1
        step = min(self._step, last)  # an episode that is longer than it may be overwrites its end
        first = max(0, step - self._length + 1)
        indices = torch.arange(first, first + self._length).unsqueeze(0)  # [1, window]
        mask = torch.arange(self._length).unsqueeze(0) < min(step, self._length - 1)  # [1, window]: what is past
        window = self.vectors[:, indices[0]]
        action, *_, new = self._agent.get_action_and_value(observations, window, mask, indices)
        self.vectors[:, step] = new
        self._step += 1
        return action
