"""Every example of every help works, in a project with runs called first, second and third."""

import shlex
from importlib import import_module

import pytest
import torch

from palaestra.cli.command import Group
from palaestra.cli.main import EXAMPLES, VERBS


def all_examples():
    yield from EXAMPLES
    for module, _ in VERBS.values():
        command = import_module(module).COMMAND
        yield from command.examples
        if isinstance(command, Group):
            for action in command.actions.values():
                yield from action.examples


def marked(example):
    """Converting starts a child that loads torch, twice."""
    is_slow = "convert" in example or "onnx" in example
    return pytest.param(example, marks=pytest.mark.slow if is_slow else ())


@pytest.mark.parametrize("example", [marked(example) for example in sorted(set(all_examples()))])
def test_the_example_works(example, runs, call):
    program, *words = shlex.split(example)
    torch.save({"layer.weight": torch.zeros(2, 3)}, "plain.pt")
    if words[0] == "train":  # a run of that name with other settings would be refused
        assert call("runs", "rm", "first")[0] == 0
    code, _, err = call(*words)
    assert program == "palaestra"
    assert code == 0, err
    assert "palaestra:" not in err


def test_every_help_has_three_examples():
    for module, _ in VERBS.values():
        command = import_module(module).COMMAND
        commands = [command, *command.actions.values()] if isinstance(command, Group) else [command]
        assert [len(one.examples) for one in commands] == [3] * len(commands)
