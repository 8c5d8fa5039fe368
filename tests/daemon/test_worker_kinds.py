from __future__ import annotations

import shlex

import pytest
from daemon_scripts import ScriptKind

from palaestra.cli.arguments import parse_train_arguments
from palaestra.core.errors import NotFound
from palaestra.core.run import RunRequest
from palaestra.daemon.worker_kinds import WorkerKinds, shell_command


def test_kinds_are_those_passed_in_and_the_installed_ones():
    kinds = WorkerKinds({"script": ScriptKind()})
    assert {"evaluate", "native", "script"} <= set(kinds.names())
    assert kinds.get("script").name == "script"
    assert kinds.get("native").name == "native"


def test_an_unknown_kind_is_refused_with_the_nearest_name():
    with pytest.raises(NotFound, match="Did you mean 'native'"):
        WorkerKinds().get("nativ")


def test_every_installed_kind_has_its_own_name_and_a_schema():
    kinds = WorkerKinds()
    for name in ("native", "evaluate"):
        assert kinds.get(name).name == name
        assert kinds.get(name).schema()["properties"]


def command(*request, config=None, kinds=None, **further):
    return shell_command(kinds or WorkerKinds(), RunRequest(*request, **further), config)


@pytest.mark.parametrize(
    "config",
    [
        {"total_steps": 1000, "ppo": {"gamma": 0.9, "clip": 0.3}},
        {"env": {"id": "ALE/Breakout-v5", "settings": {}}, "a": None, "b": True, "c": [1, "x y"]},
        {"text": "null", "other": "it's", "empty": "", "number": "1e5", "yes": "yes", "dash": "-a", "eq": "a=b"},
    ],
)
def test_the_command_line_of_a_training_means_the_same_request(config):
    program, verb, *argv = shlex.split(command("native", "cartpole", config, "my run", nproc=2))
    read = parse_train_arguments(argv)
    assert (program, verb, read.recipe, read.run, read.nproc) == ("palaestra", "train", "cartpole", "my run", 2)
    assert read.overrides == config


def test_a_kind_without_its_own_command_is_submitted():
    kinds = WorkerKinds({"nap": object()})
    assert command("nap", "", {"seconds": 1}, kinds=kinds) == "palaestra submit --kind=nap seconds=1"


def test_a_script_is_trained_by_the_name_of_its_kind():
    found = command("cleanrl", "ppo", {"script": "ppo.py", "seed": 3}, name="x")
    assert found == "palaestra train cleanrl run=x 'script=\"ppo.py\"' seed=3"


def test_a_search_names_its_format_also_for_the_default():
    search = {"format": "3x3x3", "field": "z", "seconds": 5.0}
    found = command("matmul", "discover 3x3x3", search, "mine")
    assert found == "palaestra discover 3x3x3 run=mine field=z seconds=5.0"
    assert command("matmul", "", {"seconds": 5}) == "palaestra discover 2x2x2 seconds=5"


def test_the_command_of_an_evaluation_contains_all_options():
    requested = {
        "target": "first",
        "suite": "arena.tiny",
        "episodes": 50,
        "seed": 7,
        "workers": 2,
        "deterministic": False,
        "repeat": True,
        "video": False,
        "env": {"id": "Acrobot-v1", "kwargs": {"render_mode": None}},
    }
    assert command("evaluate", "", requested, config={"target": "01ABC:best"}) == (
        "palaestra eval 01ABC:best --episodes 50 --seed 7 --workers 2 --stochastic --repeat suite=arena.tiny "
        "env.id=Acrobot-v1 env.kwargs.render_mode=null"
    )
    assert command("evaluate", "", {"target": "a", "deterministic": True}) == "palaestra eval a --deterministic"


def test_a_kind_that_cannot_be_started_has_no_command():
    assert command("upload", "", {}) == ""
