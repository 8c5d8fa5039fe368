"""Defects of training with several processes, and of the curriculum that they share."""

from __future__ import annotations

from traps.plant import plant

PLANTS = (
    plant(
        11,
        "only the leader takes part in the last save",
        ("runner/loop.py", "        if is_missing:\n", "        if is_missing and state.group.is_leader:\n"),
    ),
    plant(
        11,
        "a signal stops only the rank that got it",
        ("runner/loop.py", "= group.max_over_ranks(*requests)", "= requests"),
    ),
    plant(
        12,
        "the learning rate falls on the leader only",
        (
            "algorithms/ppo/update.py",
            "value_at(config.learning_rate, progress)",
            "value_at(config.learning_rate, progress if group.is_leader else 0.0)",
        ),
    ),
    plant(
        13,
        "half a description of a group means to train alone",
        (
            "training/distributed/rank_info.py",
            "    if missing:\n",
            "    if missing:\n        return None\n    if missing:\n",
        ),
    ),
    plant(
        14,
        "each rank normalises advantages with its own mean",
        (
            "algorithms/ppo/minibatches.py",
            "mean = group.sum_(stacked.sum(dim=(1, 2), keepdim=True)) / count",
            "mean = stacked.mean(dim=(1, 2), keepdim=True)",
        ),
    ),
    plant(
        15,
        "no heartbeat while episodes are judged",
        ("runner/loop.py", '            self._session.alive("evaluate")\n', ""),
    ),
    plant(
        16,
        "a submitted evaluation is waited for",
        (
            "runner/loop.py",
            "            self._evaluations.submit(saved)\n",
            "            self._evaluations.submit(saved)\n            self._evaluations.wait(POLL_SECONDS)\n",
        ),
    ),
    plant(
        32,
        "every rank draws the same tasks",
        ("training/state.py", 'draw_seed(config.seed, "tasks", group.rank)', 'draw_seed(config.seed, "tasks")'),
    ),
    plant(
        32,
        "every environment has dice of its own, all thrown alike",
        ("training/curriculum.py", "self._generator.choice(", "np.random.default_rng(0).choice("),
    ),
    plant(
        32,
        "the curriculum's means are not restored",
        (
            "training/curriculum.py",
            'self._fast, self._slow = np.array(saved["fast"]), np.array(saved["slow"])',
            'assert saved["fast"], saved["slow"]',
        ),
    ),
)
