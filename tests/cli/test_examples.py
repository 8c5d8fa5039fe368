"""Every example of every help works, in a project with runs called first, second and third."""

import shlex

import pytest
import torch

from palaestra.apps.arena.reference import World
from palaestra.apps.arena.replay import ReplayRecorder
from palaestra.apps.arena.settings import ArenaSettings
from palaestra.cli.command import Group
from palaestra.cli.main import EXAMPLES, VERBS, load_verb
from palaestra.config.sweep import SweepConfig
from palaestra.sweeps.plan import plan_sweep
from palaestra.sweeps.store import SweepStore

# These stay until told to leave, or need one that has stayed; tests/cluster and tests/web start them.
STAYING = {"worker", "serve", "submit", "top", "cluster"}


def all_examples():
    yield from EXAMPLES
    for verb in VERBS:
        command = load_verb(verb)
        yield from command.examples
        if isinstance(command, Group):
            for action in command.actions.values():
                yield from action.examples


def marked(example):
    """Converting starts a child that loads torch, twice; asking for evaluations starts Ray."""
    if "request-eval" in example and "--dry-run" not in example:
        return pytest.param(example, marks=[pytest.mark.slow, pytest.mark.full])
    return pytest.param(example, marks=pytest.mark.slow if "convert" in example or "onnx" in example else ())


def put_replay(run):
    """Twenty steps of resting"""
    settings = ArenaSettings(width=9, height=9, max_steps=20)
    world = World(settings, 0)
    with ReplayRecorder(run.resolve() / "replays" / "1-seed0.json.gz", settings, 0) as recorder:
        recorder.add(world.state())
        while not world.is_over:
            rewards = world.step([0])
            recorder.add(world.state(), rewards)


def put_sweep(runs):
    """Called lr, not begun"""
    requested = SweepConfig(name="lr", recipe="cartpole", parameters={"ppo.gamma": [0.98, 0.99]})
    SweepStore(runs).enter(plan_sweep(requested).config)


@pytest.mark.parametrize("example", [marked(example) for example in sorted(set(all_examples()))])
def test_the_example_works(example, runs, call, monkeypatch):
    monkeypatch.setenv("HOME", str(runs.parent))
    (runs.parent / "cleanrl").mkdir()
    program, *arguments = shlex.split(example)
    assert program == "palaestra"
    if arguments[0] in STAYING:
        assert load_verb(arguments[0]).parser().parse(arguments[1:])
        return
    torch.save({"layer.weight": torch.zeros(2, 3)}, "plain.pt")
    put_replay(runs / "by-name" / "first")
    put_sweep(runs)
    if arguments[0] == "train":  # a run of that name with other settings would be refused
        assert call("runs", "rm", "first")[0] == 0
    code, _, err = call(*arguments)
    if arguments[0] == "play":  # all is well but for the person
        assert code == 2
        assert "needs a terminal" in err
        return
    assert code == 0, err
    assert "palaestra:" not in err


def test_every_help_has_three_examples():
    for verb in VERBS:
        command = load_verb(verb)
        commands = [command, *command.actions.values()] if isinstance(command, Group) else [command]
        assert [len(one.examples) for one in commands] == [3] * len(commands)
