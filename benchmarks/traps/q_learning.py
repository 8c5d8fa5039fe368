"""Defects of replay buffers, DQN and PQN."""

from __future__ import annotations

from traps.plant import plant

REPLAY = "algorithms/buffers/replay_buffer.py"
SUM_TREE = "algorithms/buffers/sum_tree.py"
OFF_POLICY = "algorithms/off_policy.py"

PLANTS = (
    plant(
        40,
        "a truncated episode is stored as terminated",
        (
            REPLAY,
            "self.ends[row, index] = TERMINATED if ending.episode.terminated else TRUNCATED",
            "self.ends[row, index] = TERMINATED",
        ),
    ),
    plant(
        40,
        "the first observation of the next episode follows a truncated one",
        (REPLAY, "part[kept_apart] = self.finals[name][slots[kept_apart]]", "assert name, kept_apart.size >= 0"),
    ),
    plant(
        41,
        "windows run on over the end of an episode",
        (REPLAY, "is_open &= self.ends[last, envs] == RUNNING", "is_open &= self.ends[last, envs] >= RUNNING"),
    ),
    plant(
        41,
        "a shorter window is discounted as n steps",
        (REPLAY, "discounts[is_open] *= np.float32(gamma)", "discounts *= np.float32(gamma)"),
    ),
    plant(
        41,
        "a window that ends in a truncation does not bootstrap",
        (
            REPLAY,
            "discounts[self.ends[last, envs] == TERMINATED] = 0.0",
            "discounts[self.ends[last, envs] != RUNNING] = 0.0",
        ),
    ),
    plant(
        42,
        "the row that is being written is drawn",
        (REPLAY, "first = self.position - self.size\n", "first = self.position - self.size + 1\n"),
    ),
    plant(
        42,
        "windows run on over the row that is being written",
        (REPLAY, "is_open &= following != self.position", "is_open &= following >= 0"),
    ),
    plant(
        48,
        "updates are due where the counter is a multiple of the interval",
        (
            OFF_POLICY,
            "return max(0, after // interval - before // interval)",
            "return int(after > before and after % interval == 0)",
        ),
    ),
    plant(
        48,
        "only the steps of this process are counted",
        (
            OFF_POLICY,
            "progress.after(self.envs.count * self.group.world_size * (row + 1))",
            "progress.after(self.envs.count * (row + 1))",
        ),
    ),
    plant(
        50,
        "the target network chooses the action that it values",
        (
            "algorithms/dqn/loss.py",
            "choosing_values.argmax(dim=-1, keepdim=True)",
            "next_values.argmax(dim=-1, keepdim=True)",
        ),
    ),
    plant(
        51,
        "replayed observations update the statistics",
        (
            "algorithms/torch_off_policy.py",
            "device, agent = self.device, self.agent\n",
            (
                "device, agent = self.device, self.agent\n"
                "        agent.take_in(as_tensors(batch.observations, device, adds_time=True))\n"
            ),
        ),
    ),
    plant(
        51,
        "next observations are not normalised",
        (
            "algorithms/torch_off_policy.py",
            "next_observations=agent.prepare(as_tensors(batch.next_observations, device, adds_time=True))",
            "next_observations=as_tensors(batch.next_observations, device, adds_time=True)",
        ),
    ),
    plant(
        52,
        "random actions go beyond the bounds",
        (OFF_POLICY, "return 2 * rng.uniform((count, size)) - 1", "return 4 * rng.uniform((count, size)) - 2"),
    ),
    plant(
        52,
        "random actions are not scaled to the bounds",
        (
            OFF_POLICY,
            "return lambda actions: middle + half_width * actions",
            "return lambda actions: middle * 0 + actions",
        ),
    ),
    plant(
        53,
        "importance weights are not divided by the largest",
        (
            SUM_TREE,
            "((values.min() / values) ** beta)",
            "((self.tree.total / (np.count_nonzero(self.tree.values(np.arange(self.size))) * values)) ** beta)",
        ),
    ),
    plant(
        53,
        "new transitions have priority 1",
        (
            SUM_TREE,
            "self.tree.set(row * self.env_count + envs, self.largest)",
            "self.tree.set(row * self.env_count + envs, 1.0)",
        ),
    ),
    plant(
        53,
        "beta stays where it starts",
        (
            "algorithms/dqn/algorithm.py",
            "return start + (1 - start) * min(now.fraction, 1.0)",
            "return start + 0 * min(now.fraction, 1.0)",
        ),
    ),
    plant(
        53,
        "the tree adds differences in single precision",
        (
            SUM_TREE,
            "self.sums = np.zeros(2 * self.leaf_count, np.float64)",
            "self.sums = np.zeros(2 * self.leaf_count, np.float32)",
        ),
    ),
    plant(
        55,
        "the target network is not restored",
        ("algorithms/dqn/torch_dqn.py", 'self.target.restore(saved["target"])', 'assert "target" in saved'),
    ),
    plant(
        55,
        "the count of updates, which batches follow from, begins at 0 again",
        (OFF_POLICY, 'self.update_count = int(saved["update_count"])', 'assert saved["update_count"] >= 0'),
    ),
    plant(
        55,
        "priorities are forgotten",
        (
            "algorithms/dqn/algorithm.py",
            'self.priorities.restore(saved["priorities"])',
            'assert saved["priorities"] is not None',
        ),
    ),
    plant(
        56,
        "layer normalisation comes after the activation",
        (
            "policies/components/dense.py",
            (
                "            if self.norms is not None:\n"
                "                outputs = self.norms[index](outputs)\n"
                "            outputs = self.activation(outputs)\n"
            ),
            (
                "            outputs = self.activation(outputs)\n"
                "            if self.norms is not None:\n"
                "                outputs = self.norms[index](outputs)\n"
            ),
        ),
    ),
    plant(
        56,
        "returns run on over the end of an episode",
        (
            "algorithms/pqn/returns.py",
            "weights = (~ended).to(rewards.dtype) * q_lambda",
            "weights = (ended | ~ended).to(rewards.dtype) * q_lambda",
        ),
    ),
    plant(
        56,
        "the next episode's value follows a truncated one",
        (
            "algorithms/pqn/torch_pqn.py",
            "self._samples(actions, truncated)",
            "self._samples(actions, [])",
        ),
    ),
)
