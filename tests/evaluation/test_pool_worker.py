"""The process's side, without a process: lines in, lines out."""

from __future__ import annotations

import json
import os
from dataclasses import asdict

import pytest

from palaestra.core.evaluation import EvaluationPlan
from palaestra.evaluation import pool_worker
from palaestra.evaluation.local import LocalEvaluator
from palaestra.evaluation.plans import episode_from
from palaestra.evaluation.targets import load_policy_target


@pytest.fixture
def talk(monkeypatch):
    monkeypatch.setattr(pool_worker, "die_with_parent", lambda pid: None)

    def say(*messages):
        reading, writing = os.pipe()
        try:
            code = pool_worker.main([json.dumps(message) for message in messages], writing)
        finally:
            os.close(writing)
        with os.fdopen(reading) as answers:
            return code, [json.loads(line) for line in answers]

    return say


def start_of(run, epoch=3):
    sidecar = run.directory.checkpoints / f"model_{epoch:04d}.yaml"
    return {"sidecar": str(sidecar), "trust_module": True, "videos": None, "replays": None, "parent": os.getpid()}


def test_every_seed_of_every_share_is_a_line(trained_run, talk):
    plans = [EvaluationPlan("x", "CartPole-v1", {}, seeds, max_episode_steps=40) for seeds in ((4, 7), (5,))]
    code, answers = talk(start_of(trained_run), *({"plan": asdict(plan)} for plan in plans))
    assert code == 0
    player = LocalEvaluator(load_policy_target("judged:3", trained_run.root).loaded)
    expected = [episode for plan in plans for episode in player.evaluate(plan)]
    assert [episode_from(reply["episode"]) for reply in answers] == expected


def test_what_is_refused_is_a_line_too(trained_run, talk):
    code, answers = talk(start_of(trained_run, epoch=99))
    assert code == 3
    (reply,) = answers
    assert "99" in reply["error"]
    assert reply["exit_code"] == 3
