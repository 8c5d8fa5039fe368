"""Defects of names and values: configuration, features by name, tokens, bytes."""

from __future__ import annotations

from traps.plant import plant

PLANTS = (
    plant(
        25,
        "an override reaches into the recipe",
        ("config/resolve.py", "merged = deepcopy(base)", "merged = base"),
    ),
    plant(
        25,
        "a configuration shares what was handed in",
        ("config/resolve.py", "merged[key] = deepcopy(value)", "merged[key] = value"),
    ),
    plant(
        25,
        "an evaluation's settings reach the next evaluation",
        (
            "evaluation/suites.py",
            'merged["kwargs"] = {**base.get("kwargs", {}), **changes["kwargs"]}',
            'merged["kwargs"] = base.get("kwargs", {})\n        merged["kwargs"].update(changes["kwargs"])',
        ),
    ),
    plant(
        25,
        "a task's settings reach the tasks after it",
        (
            "envs/tasks.py",
            'env.model_copy(update={"kwargs": {**env.kwargs, **task.kwargs}})',
            "(env.kwargs.update(task.kwargs), env.model_copy())[1]",
        ),
    ),
    plant(
        25,
        "two simulations that are the same are played under two names",
        ("evaluation/suites.py", "        if twin:\n", "        if not played:\n"),
    ),
    plant(26, "unknown keys are taken", ("config/base.py", 'extra="forbid"', 'extra="ignore"')),
    plant(
        27,
        "a task is known by what its name contains",
        (
            "loggers/samples.py",
            'task if group == "tasks" and last == figure else ""',
            'task if "tasks" in group and figure in rest else ""',
        ),
    ),
    plant(
        27,
        "a simulation's category is what its name begins with",
        ("evaluation/suites.py", "Simulation(key, one.category,", 'Simulation(key, key.partition("_")[0],'),
    ),
    plant(
        28,
        "a policy for another environment is the same object, set up anew",
        (
            "policies/agent.py",
            "other = Agent(self.network, self.interface, normalize_observations=False, normalize_returns=False)",
            "other = self",
        ),
    ),
    plant(
        29,
        "an environment's ids are taken for the policy's",
        ("policies/agent.py", "other.feature_map = feature_map(self.interface, env)", "other.feature_map = None"),
    ),
    plant(
        29,
        "norms go by position instead of by id",
        (
            "policies/features.py",
            "    for feature in features:\n        if feature.id < count:\n            scales[feature.id]",
            "    for place, feature in enumerate(features):\n        if feature.id < count:\n            scales[place]",
        ),
    ),
    plant(
        29,
        "ids are not translated",
        ("policies/features.py", "            table[theirs] = ours\n", "            table[theirs] = theirs\n"),
    ),
    plant(
        30,
        "the last token of a row is trimmed",
        (
            "policies/components/tokens.py",
            "        coordinate, ids, values = rows.long().unbind(-1)\n        y, x",
            "        coordinate, ids, values = rows[:, :-1].long().unbind(-1)\n        y, x",
        ),
    ),
    plant(
        30,
        "what is left out overwrites cell 0",
        ("policies/components/tokens.py", "grid.scatter_add(1, cell, normal)", "grid.scatter(1, cell, normal)"),
    ),
    plant(
        31,
        "ids from 128 on turn negative",
        (
            "policies/features.py",
            "table = torch.zeros(ID_COUNT, dtype=torch.uint8)",
            "table = torch.zeros(ID_COUNT, dtype=torch.int8)",
        ),
    ),
    plant(
        31,
        "cells are counted in bytes",
        (
            "policies/components/tokens.py",
            "cell = ((ids * self.height + y) * self.width + x) * is_inside",
            "cell = (((ids * self.height + y) * self.width + x) * is_inside).byte().long()",
        ),
    ),
)
