"""Defects of learning: advantages, minibatches, memory, regularisers, optimisers, what is saved of them."""

from __future__ import annotations

from traps.plant import plant

PLANTS = (
    plant(
        1,
        "the sum begins one step before the last",
        ("algorithms/advantages.py", "out = np.empty_like(steps)", "out = np.zeros_like(steps)"),
        ("algorithms/advantages.py", "range(len(steps) - 1, -1, -1)", "range(len(steps) - 2, -1, -1)"),
    ),
    plant(
        2,
        "a cut episode bootstraps from the next one's first observation",
        (
            "algorithms/rollout.py",
            "next_values[steps, env_indices] = _values_of(truncated, agent, envs, buffer.device)",
            "assert steps, env_indices",
        ),
    ),
    plant(
        2,
        "the sum runs on over the end of an episode",
        (
            "algorithms/advantages.py",
            "discounts = (~rollout.ended).to(deltas.dtype) * (gamma * gae_lambda)\n    return",
            "discounts = torch.ones_like(deltas) * (gamma * gae_lambda)\n    return",
        ),
    ),
    plant(
        3,
        "a truncated episode counts as terminated",
        (
            "envs/vector/in_process.py",
            "self._end(index, observation, bool(terminated), info)",
            "self._end(index, observation, bool(terminated or truncated), info)",
        ),
    ),
    plant(
        4,
        "an update begins each segment with an empty memory",
        (
            "algorithms/ppo/minibatches.py",
            "memory={name: part.flatten(0, 1) for",
            "memory={name: torch.zeros_like(part.flatten(0, 1)) for",
        ),
    ),
    plant(
        4,
        "an update does not forget where an episode begins inside a segment",
        (
            "algorithms/ppo/update.py",
            "agent(minibatch.observations, minibatch.memory, minibatch.starts)",
            "agent(minibatch.observations, minibatch.memory, None)",
        ),
    ),
    plant(
        5,
        "samples are drawn with replacement",
        (
            "algorithms/ppo/minibatches.py",
            "shuffler.permutation(segments.count)",
            "shuffler.integers(segments.count, size=segments.count)",
        ),
    ),
    plant(
        6,
        "later epochs rebuild returns from the values of the moved critic",
        (
            "algorithms/ppo/minibatches.py",
            "    if epoch == 0 or not config.vtrace.enabled:\n        return segments\n",
            (
                "    if epoch == 0:\n        return segments\n"
                "    if not config.vtrace.enabled:\n"
                "        moved = agent(segments.observations, segments.memory, segments.starts).value\n"
                "        return replace(segments, returns=segments.advantages + moved)\n"
            ),
        ),
    ),
    plant(
        7,
        "advantages are summed over environments instead of over time",
        ("algorithms/advantages.py", "steps = deltas.cpu().numpy()", "steps = deltas.T.cpu().numpy()"),
        ("algorithms/advantages.py", "weights = discounts.cpu().numpy()", "weights = discounts.T.cpu().numpy()"),
        ("algorithms/advantages.py", "torch.from_numpy(out)", "torch.from_numpy(out.T.copy())"),
    ),
    plant(
        7,
        "V-trace is summed over environments instead of over time",
        (
            "algorithms/advantages.py",
            (
                "    for step in reversed(range(deltas.shape[0])):\n"
                "        next_corrections[step] = correction\n"
                "        correction = torch.addcmul(weighted[step], clipped_discounts[step], correction)\n"
            ),
            (
                "    correction = torch.zeros_like(deltas[:, 0])\n"
                "    for step in reversed(range(deltas.shape[1])):\n"
                "        next_corrections[:, step] = correction\n"
                "        correction = torch.addcmul(weighted[:, step], clipped_discounts[:, step], correction)\n"
            ),
        ),
    ),
    plant(
        8,
        "the pull to the initial weights is not in the gradient",
        ("algorithms/optimizers.py", "grad.add_(flat - self._initial, alpha=self._config.l2_init)", "grad.add_(0)"),
    ),
    plant(
        9,
        "clip_range means ten times as much",
        (
            "algorithms/optimizers.py",
            "flat.clamp_(-clip_range, clip_range)",
            "flat.clamp_(-10 * clip_range, 10 * clip_range)",
        ),
    ),
    plant(
        9,
        "clip_range is not passed on",
        ("algorithms/optimizers.py", "        self.regularizer.bound(self.flat)\n", ""),
    ),
    plant(
        10,
        "a key is not read",
        ("training/trainer.py", "is_due(state.config.analyze_weights_interval,", "is_due(0,"),
    ),
    plant(
        37,
        "statistics are not saved with the weights",
        ("checkpoints/weights.py", "state = policy.state_dict()", "state = dict(policy.named_parameters())"),
    ),
    plant(
        37,
        "the compiled network is put in the place of the real one",
        (
            "policies/agent.py",
            "network.compile(backend=backend)",
            "agent.network = torch.compile(network, backend=backend)",
        ),
    ),
    plant(
        38,
        "Muon gets tables of embeddings",
        ("algorithms/optimizers.py", "not isinstance(module, LOOKED_UP)", "isinstance(module, nn.Module)"),
    ),
    plant(
        38,
        "an integer weight decay stays an integer",
        ("config/optimizer.py", "weight_decay: float = Field(", "weight_decay: int | float = Field("),
    ),
)
