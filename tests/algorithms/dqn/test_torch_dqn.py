"""DQN in torch: updates against an implementation written out, targets, exploration, resuming."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch.nn.functional import huber_loss, mse_loss

import tests.algorithms.actors  # noqa: F401  registers environments with images and named parts
from palaestra.algorithms.base import Progress
from palaestra.algorithms.buffers.replay_rows import copy_rows
from palaestra.algorithms.counter_rng import CounterRng
from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError
from palaestra.core.seeds import draw_seed
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train

OPTIONS = {
    "plain": {},
    "double": {"double": True},
    "dueling": {"dueling": True},
    "huber and a clipped gradient": {"loss": "huber", "max_grad_norm": 0.1},
    "n-step": {"n_step": 3},
    "prioritized": {"prioritized": {"enabled": True}},
    "everything": {
        "double": True,
        "dueling": True,
        "loss": "huber",
        "n_step": 3,
        "prioritized": {"enabled": True},
        "tau": 0.1,
        "target_interval": 3,
    },
}
SMALL = {
    "env_count": 3,
    "steps_per_iteration": 60,
    "buffer_size": 150,
    "learning_starts": 30,
    "train_interval": 6,
    "batch_size": 16,
    "target_interval": 25,
    "learning_rate": 1e-3,
}


def config_of(seed=1, total_steps=600, policy=None, **dqn) -> TrainConfig:
    return TrainConfig(
        algorithm="dqn",
        engine="torch",
        seed=seed,
        total_steps=total_steps,
        env="CartPole-v1",
        policy=policy or {"graph": "mlp", "settings": {"hidden": [16, 16], "activation": "tanh"}},
        dqn={**SMALL, **dqn},
    )


def run_on(state, iterations: int):
    for _, report in zip(range(iterations), train(state), strict=False):
        last = report
    return last


def weights(state) -> list[float]:
    return torch.cat([value.double().flatten() for value in state.algorithm.policy().state_dict().values()]).tolist()


def rows_of(state):
    """Fills another buffer with the rows of this one, as a checkpoint does."""

    def load(buffer) -> bool:
        copy_rows(state.algorithm.buffer, buffer)
        return True

    return load


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_ten_updates_equal_plain_torch_written_out(options):
    state = new_training_state(config_of(learning_starts=599, **options))
    run_on(state, 2)  # 120 steps, nothing learned yet
    algorithm, settings = state.algorithm, state.config.dqn
    network = deepcopy(algorithm.agent.network)
    target = deepcopy(network)
    adam = torch.optim.Adam(network.parameters(), lr=1e-3, eps=1e-8)
    priorities = None if algorithm.priorities is None else deepcopy(algorithm.priorities)
    now = Progress(2, 300, 600)
    for update in range(10):
        rng = CounterRng(draw_seed(1, "replay"), update)
        scale = np.ones(16, np.float32)
        if priorities is None:
            indices = algorithm.buffer.draw(rng, 16)
        else:
            indices, scale = priorities.draw(rng, 16, beta=0.4 + 0.6 * 0.5)
        batch = algorithm.buffer.gather(indices, settings.n_step, settings.gamma)
        values, following, choosing = (
            one(torch.from_numpy(observations)[None], {}).distribution.values[0]
            for one, observations in (
                (network, batch.observations),
                (target, batch.next_observations),
                (network, batch.next_observations),
            )
        )
        best = following.max(1).values
        if settings.double:
            best = following[torch.arange(16), choosing.argmax(1)]
        wanted = (torch.from_numpy(batch.rewards) + torch.from_numpy(batch.discounts) * best).detach()
        taken = values[torch.arange(16), torch.from_numpy(batch.actions)]
        criterion = mse_loss if settings.loss == "mse" else huber_loss
        adam.zero_grad()
        (criterion(taken, wanted, reduction="none") * torch.from_numpy(scale)).mean().backward()
        if settings.max_grad_norm is not None:
            torch.nn.utils.clip_grad_norm_(network.parameters(), settings.max_grad_norm)
        adam.step()
        if priorities is not None:
            priorities.update(indices, (taken - wanted).detach().numpy())
        algorithm.learn(1, now)
        if update == 4:
            algorithm.update_target(settings.tau)
            with torch.no_grad():
                for slow, fast in zip(target.parameters(), network.parameters(), strict=True):
                    slow.copy_(settings.tau * fast + (1 - settings.tau) * slow)
    for ours, theirs in zip(algorithm.agent.network.parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)
    if priorities is not None:
        np.testing.assert_allclose(algorithm.priorities.tree.sums, priorities.tree.sums, rtol=1e-4)


def test_the_target_moves_at_multiples_of_its_interval_over_all_environments():
    state = new_training_state(config_of())
    algorithm, moved = state.algorithm, []
    after_steps, follow = algorithm.after_steps, algorithm.tensors.target.follow

    def note(before, now):
        algorithm.tensors.target.follow = lambda tau: moved.append((now.env_steps, tau)) or follow(tau)
        after_steps(before, now)
        algorithm.tensors.target.follow = follow

    algorithm.after_steps = note
    run_on(state, 2)
    assert moved == [(27, 1.0), (51, 1.0), (75, 1.0), (102, 1.0)]


def test_the_target_is_not_trained():
    state = new_training_state(config_of(target_interval=10_000))
    before = state.algorithm.tensors.target.flat.clone()
    run_on(state, 3)
    assert torch.equal(state.algorithm.tensors.target.flat, before)
    assert not torch.equal(state.algorithm.tensors.optimizer.flat, before)


def test_reports_carry_the_names_of_cleanrls_tags():
    state = new_training_state(config_of())
    report = run_on(state, 2)
    assert set(report.update.metrics()) == {
        "losses/td_loss",
        "losses/q_values",
        "losses/grad_norm",
        "charts/learning_rate",
    }
    assert report.metrics["charts/epsilon"] == pytest.approx(1 - 0.95 * (120 / 600) / 0.5)
    assert report.metrics["replay/transitions"] == 120
    assert run_on(new_training_state(config_of(learning_starts=100)), 1).update.metrics() == {}


def test_actions_are_random_with_probability_epsilon_and_else_the_largest_value():
    state = new_training_state(config_of(exploration={"start": 0.3, "end": 0.3}, learning_starts=599))
    run_on(state, 2)
    buffer, agent = state.algorithm.buffer, state.algorithm.agent
    with torch.no_grad():
        greedy = agent(torch.from_numpy(buffer.blocks[""][:40]), {}).distribution.mode().numpy()
    is_greedy = greedy == buffer.actions[:40]
    assert 0.75 < is_greedy.mean() < 0.95  # 1 - 0.3 / 2


@pytest.mark.parametrize("options", [*OPTIONS.values(), {"policy": "normalized"}], ids=[*OPTIONS, "normalized"])
def test_a_restored_state_goes_on_bit_for_bit(options):
    options = dict(options)
    policy = {"graph": "mlp", "normalize_observations": True} if options.pop("policy", None) else None
    config = config_of(policy=policy, **options)
    state = new_training_state(config)
    run_on(state, 4)
    model, saved = deepcopy(state.algorithm.policy().state_dict()), state.capture()
    other = new_training_state(config)
    other.algorithm.policy().load_state_dict(model)
    other.restore(saved, rows_of(state))
    expected, report = run_on(state, 4), run_on(other, 4)
    assert report.update == expected.update
    assert report.episodes == expected.episodes
    assert report.metrics == expected.metrics
    assert weights(other) == weights(state)


@pytest.mark.parametrize("part", ["optimizer", "target", "update_count", "replay_buffer", "priorities", "envs"])
def test_leaving_out_any_one_part_is_seen(part):
    config = config_of(prioritized={"enabled": True})
    state = new_training_state(config)
    run_on(state, 4)
    model, saved = deepcopy(state.algorithm.policy().state_dict()), state.capture()
    other = new_training_state(config)
    other.algorithm.policy().load_state_dict(model)
    fresh = other.capture()
    fresh["replay_buffer"] = {**saved["replay_buffer"], "observation": fresh["replay_buffer"]["observation"]}
    other.restore({**saved, part: fresh[part]}, rows_of(state))
    run_on(state, 4)
    run_on(other, 4)
    assert weights(other) != weights(state)


def test_a_buffer_that_was_lost_starts_empty_and_learning_goes_on():
    config = config_of(prioritized={"enabled": True})
    state = new_training_state(config)
    run_on(state, 4)
    saved = state.capture()
    other = new_training_state(config)
    other.restore(saved, lambda _buffer: False)
    report = run_on(other, 1)
    assert report.metrics["replay/transitions"] == 60
    assert report.update.metrics()["losses/td_loss"] > 0


def test_statistics_come_from_fresh_steps_alone_and_apply_when_sampled():
    policy = {"graph": "mlp", "normalize_observations": True}
    state = new_training_state(config_of(policy=policy))
    run_on(state, 3)
    agent, buffer = state.algorithm.agent, state.algorithm.buffer
    moments = agent.observation_normalizer.parts["part_"].moments
    raw = state.algorithm.buffer.blocks[""]
    assert float(moments.count) == 180  # batches drew 16 of them thirty times
    assert np.abs(raw[: buffer.size]).max() < 5, "observations are stored as the environment gave them"
    batch = buffer.gather(np.arange(4), 1, 0.9)
    prepared = state.algorithm.tensors_of(batch).observations[0]
    expected = (batch.observations - moments.mean.numpy()) / np.sqrt(moments.variance.numpy() + 1e-8)
    np.testing.assert_allclose(prepared.numpy(), expected, rtol=1e-4, atol=1e-5)
    following = state.algorithm.tensors_of(batch).next_observations[0]
    expected = (batch.next_observations - moments.mean.numpy()) / np.sqrt(moments.variance.numpy() + 1e-8)
    np.testing.assert_allclose(following.numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("algorithm", ["dqn", "pqn"])
@pytest.mark.parametrize("kind", ["Image", "Parts"])
def test_images_and_named_parts_are_learned_from(algorithm, kind):
    policy = {"graph": "cnn", "settings": {"size": 8}} if kind == "Image" else {"settings": {"hidden": [8]}}
    pqn = {"env_count": 3, "horizon": 20, "minibatch_size": 20}
    env = f"actors/Discrete{kind}-v0"
    state = new_training_state(
        TrainConfig(algorithm=algorithm, engine="torch", total_steps=120, env=env, policy=policy, dqn=SMALL, pqn=pqn)
    )
    before = weights(state)
    assert np.isfinite(run_on(state, 2).update.metrics()["losses/td_loss"])
    assert weights(state) != before


def train_and_resume(group):
    config = config_of(prioritized={"enabled": True}, n_step=2, policy={"graph": "mlp", "normalize_observations": True})
    state = new_training_state(config, group)
    run_on(state, 3)
    model, saved = deepcopy(state.algorithm.policy().state_dict()), state.capture()
    other = new_training_state(config, group)
    other.algorithm.policy().load_state_dict(model)
    other.restore(saved, rows_of(state))
    run_on(state, 2)
    run_on(other, 2)
    return [weights(state), weights(other), state.algorithm.buffer.current.tolist()]


@pytest.mark.slow
def test_two_ranks_learn_one_network_from_steps_of_their_own_and_resume_exactly(together):
    (first, first_resumed, first_seen), (second, second_resumed, second_seen) = together(train_and_resume)
    assert first == first_resumed == second == second_resumed
    assert first_seen != second_seen


def average_gradient(group):
    """One update of this rank's batch, and the gradient of that batch alone."""
    state = new_training_state(config_of(learning_starts=599, learning_rate=0.0), group)
    run_on(state, 2)
    algorithm = state.algorithm
    average, own = algorithm.group.average_, []
    algorithm.group.average_ = lambda grad: own.append(grad.clone()) or average(grad)
    algorithm.learn(1, Progress(2, 120, 600))
    return [own[0].tolist(), algorithm.tensors.optimizer.grad.tolist()]


@pytest.mark.slow
def test_gradients_are_averaged_over_ranks(together):
    (first, averaged), (second, also_averaged) = together(average_gradient)
    assert averaged == also_averaged
    np.testing.assert_allclose(averaged, (np.array(first) + np.array(second)) / 2, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env": "Pendulum-v1"}, "algorithm=dqn cannot act in this environment, whose actions are continuous"),
        (
            {"policy": {"graph": "memory"}},
            "mingru has memory, and this algorithm learns from single steps; take algorithm=ppo",
        ),
        ({"policy": {"normalize_returns": True}}, "policy.normalize_returns=true does not fit algorithm=dqn"),
    ],
)
def test_what_dqn_cannot_train_is_refused_with_what_to_try(changes, message):
    with pytest.raises(UsageError, match=message):
        new_training_state(TrainConfig(**{"algorithm": "dqn", "engine": "torch", "env": "CartPole-v1", **changes}))
