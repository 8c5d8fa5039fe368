"""PPO with environment, rollout, advantages and updates in one compiled function, as purejaxrl showed; our own writing.

`python -m peers.jax_loop`. CartPole is written in JAX after Gymnasium's equations. A cut episode is taken for an ended
one. Several updates are made in a call, so that Python does not count. It logs nothing and saves nothing.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array, lax
from jax import numpy as jnp

from peers.protocol import Meter, read_job
from peers.settings import Setting  # noqa: TC001 - one line, and no cost

CALL_STEPS = 25_600  # environment steps of a call, about; fewer where the moment of solving is asked for
SOLVE_CALL_STEPS = 2_048
GRAVITY, POLE_MASS, TOTAL_MASS, HALF_LENGTH, FORCE, TAU = 9.8, 0.1, 1.1, 0.5, 10.0, 0.02
X_LIMIT, ANGLE_LIMIT, STEP_LIMIT = 2.4, 12 * 2 * np.pi / 360, 500
ADAM = (0.9, 0.999, 1e-5)

Weights = dict[str, list[tuple[Array, Array]]]


class Carry(NamedTuple):
    weights: Weights
    means: Weights  # Adam's
    squares: Weights
    count: Array  # gradient steps so far
    state: Array  # [B, 4]
    ages: Array  # [B] steps of the running episodes
    key: Array
    updates: Array


class Step(NamedTuple):
    """All [T, B, ...]."""

    seen: Array
    action: Array
    log_prob: Array
    value: Array
    ended: Array
    length: Array  # of the episode that ended here, else 0


def main() -> None:
    job = read_job()
    setting = job.setting
    meter = Meter(job, jax=jax.__version__)
    per_call = max(1, (SOLVE_CALL_STEPS if setting.until_solved else CALL_STEPS) // setting.batch_size)
    go = jax.jit(partial(several_updates, setting, per_call), donate_argnums=0)
    carry, steps, goes_on = beginning(setting, job.seed), 0, True
    meter.begin()
    while goes_on:
        carry, lengths = go(carry)
        steps += per_call * setting.batch_size
        ended = np.asarray(lengths).ravel()  # waits for the result
        goes_on = meter.update(steps, ended[ended > 0].astype(float).tolist())
    meter.finish()


def beginning(setting: Setting, seed: int) -> Carry:
    key, actor, critic, worlds = jax.random.split(jax.random.key(seed), 4)
    weights = {"actor": tower(actor, 2, 0.01), "critic": tower(critic, 1, 1.0)}
    nothing = jax.tree.map(jnp.zeros_like, weights)
    state = fresh(worlds, setting.env_count)
    ages = jnp.zeros(setting.env_count, jnp.int32)
    return Carry(weights, nothing, jax.tree.map(jnp.copy, nothing), jnp.array(0), state, ages, key, jnp.array(0))


def tower(key: Array, outputs: int, gain: float) -> list[tuple[Array, Array]]:
    sizes, gains = ((4, 64), (64, 64), (64, outputs)), (2**0.5, 2**0.5, gain)
    draw = jax.nn.initializers.orthogonal
    keys = jax.random.split(key, len(sizes))
    return [(draw(gain)(key, size), jnp.zeros(size[1])) for key, size, gain in zip(keys, sizes, gains, strict=True)]


def forward(layers: list[tuple[Array, Array]], inputs: Array) -> Array:
    for weight, bias in layers[:-1]:
        inputs = jnp.tanh(inputs @ weight + bias)
    weight, bias = layers[-1]
    return inputs @ weight + bias


def fresh(key: Array, count: int) -> Array:
    return jax.random.uniform(key, (count, 4), minval=-0.05, maxval=0.05)


def move(state: Array, action: Array) -> Array:
    """One step of Gymnasium's CartPole-v1, by Euler's rule."""
    x, speed, angle, turning = state.T
    force = jnp.where(action == 1, FORCE, -FORCE)
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    push = (force + POLE_MASS * HALF_LENGTH * turning**2 * sine) / TOTAL_MASS
    turn = (GRAVITY * sine - cosine * push) / (HALF_LENGTH * (4 / 3 - POLE_MASS * cosine**2 / TOTAL_MASS))
    acceleration = push - POLE_MASS * HALF_LENGTH * turn * cosine / TOTAL_MASS
    after = (x + TAU * speed, speed + TAU * acceleration, angle + TAU * turning, turning + TAU * turn)
    return jnp.stack(after, axis=1)


def several_updates(setting: Setting, count: int, carry: Carry) -> tuple[Carry, Array]:
    """The lengths are those of ended episodes, [count, T, B]; a CartPole's return is its length."""
    return lax.scan(lambda carry, _: one_update(setting, carry), carry, length=count)


def one_update(setting: Setting, carry: Carry) -> tuple[Carry, Array]:
    playing = (carry.state, carry.ages, carry.key)
    play = partial(play_step, setting.env_count, carry.weights)
    (state, ages, key), rollout = lax.scan(play, playing, length=setting.horizon)
    last_value = forward(carry.weights["critic"], state)[:, 0]
    advantages = judge(setting, rollout, last_value)
    data = (rollout.seen, rollout.action, rollout.log_prob, rollout.value, advantages, advantages + rollout.value)
    flat = [one.reshape(setting.batch_size, *one.shape[2:]) for one in data]
    left = jnp.maximum(0.0, 1.0 - carry.updates * setting.batch_size / setting.total_steps)
    key, shuffling = jax.random.split(key)
    learning = (carry.weights, carry.means, carry.squares, carry.count)
    keys = jax.random.split(shuffling, setting.epochs)
    learning, _ = lax.scan(partial(one_epoch, setting, flat, left), learning, keys)
    return Carry(*learning, state, ages, key, carry.updates + 1), rollout.length


def play_step(env_count: int, weights: Weights, playing: tuple[Array, Array, Array], _: None) -> Any:
    state, ages, key = playing
    key, drawing, resetting = jax.random.split(key, 3)
    logits = jax.nn.log_softmax(forward(weights["actor"], state))
    action = jax.random.categorical(drawing, logits)
    log_prob = jnp.take_along_axis(logits, action[:, None], axis=1)[:, 0]
    value = forward(weights["critic"], state)[:, 0]
    moved, ages = move(state, action), ages + 1
    fallen = (jnp.abs(moved[:, 0]) > X_LIMIT) | (jnp.abs(moved[:, 2]) > ANGLE_LIMIT)
    ended = fallen | (ages >= STEP_LIMIT)
    step = Step(state, action, log_prob, value, ended, jnp.where(ended, ages, 0))
    moved = jnp.where(ended[:, None], fresh(resetting, env_count), moved)
    return (moved, jnp.where(ended, 0, ages), key), step


def judge(setting: Setting, rollout: Step, last_value: Array) -> Array:
    """Advantages (GAE), [T, B]; every reward is 1."""

    def back(after: tuple[Array, Array], step: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
        (running, next_value), (value, ended) = after, step
        lives = 1.0 - ended
        surprise = 1.0 + setting.gamma * next_value * lives - value
        running = surprise + setting.gamma * setting.gae_lambda * lives * running
        return (running, value), running

    after = (jnp.zeros_like(last_value), last_value)
    return lax.scan(back, after, (rollout.value, rollout.ended), reverse=True)[1]


def one_epoch(setting: Setting, flat: list[Array], left: Array, learning: Any, key: Array) -> tuple[Any, None]:
    order = jax.random.permutation(key, setting.batch_size)
    minibatches = [one[order].reshape(-1, setting.minibatch_size, *one.shape[1:]) for one in flat]
    return lax.scan(partial(one_gradient_step, setting, left), learning, minibatches)


def one_gradient_step(setting: Setting, left: Array, learning: Any, minibatch: list[Array]) -> tuple[Any, None]:
    weights, means, squares, count = learning
    clip = setting.clip * (left if setting.clip_falls else 1.0)
    rate = setting.learning_rate * (left if setting.rate_falls else 1.0)
    slopes = jax.grad(loss)(weights, setting, clip, *minibatch)
    norm = jnp.sqrt(sum(jnp.sum(slope**2) for slope in jax.tree.leaves(slopes)))
    slopes = jax.tree.map(lambda slope: slope * jnp.minimum(1.0, setting.max_grad_norm / (norm + 1e-6)), slopes)
    first, second, epsilon = ADAM
    count = count + 1
    means = jax.tree.map(lambda mean, slope: first * mean + (1 - first) * slope, means, slopes)
    squares = jax.tree.map(lambda square, slope: second * square + (1 - second) * slope**2, squares, slopes)
    weights = jax.tree.map(
        lambda weight, mean, square: (
            weight - rate * (mean / (1 - first**count)) / (jnp.sqrt(square / (1 - second**count)) + epsilon)
        ),
        weights,
        means,
        squares,
    )
    return (weights, means, squares, count), None


def loss(
    weights: Weights,
    setting: Setting,
    clip: Any,
    seen: Array,
    action: Array,
    log_prob: Array,
    value: Array,
    advantage: Array,
    target: Array,
) -> Array:
    logits = jax.nn.log_softmax(forward(weights["actor"], seen))
    ratio = jnp.exp(jnp.take_along_axis(logits, action[:, None], axis=1)[:, 0] - log_prob)
    advantage = (advantage - advantage.mean()) / (advantage.std(ddof=1) + 1e-8)
    policy_loss = jnp.maximum(-advantage * ratio, -advantage * jnp.clip(ratio, 1 - clip, 1 + clip)).mean()
    new_value = forward(weights["critic"], seen)[:, 0]
    errors = (new_value - target) ** 2
    if setting.clip_value_loss:
        near = value + jnp.clip(new_value - value, -clip, clip)
        errors = jnp.maximum(errors, (near - target) ** 2)
    entropy = -(jnp.exp(logits) * logits).sum(axis=1).mean()
    return policy_loss - setting.entropy_coefficient * entropy + setting.value_coefficient * 0.5 * errors.mean()


if __name__ == "__main__":
    main()
