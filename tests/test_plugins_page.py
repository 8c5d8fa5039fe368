"""docs/plugins.md: the package of its examples is installed, and every example is used."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import gymnasium
import pytest
import torch

from palaestra.api import train
from palaestra.cli.main import main
from palaestra.config.recipes.registry import find_recipe
from palaestra.core import plugins
from palaestra.core.executor import load_service
from palaestra.core.run import RunRequest
from palaestra.core.trials import SlotRequest
from palaestra.core.worker_kind import RequestRefused, Resources
from palaestra.envs.make import load_plugins
from palaestra.evaluation.suites import find_suite
from palaestra.policies.components.base import Signal
from palaestra.policies.components.registry import find_component
from palaestra.runs.directory import RunDirectory

PAGE = (Path(__file__).parents[1] / "docs" / "plugins.md").read_text()
TINY = {"ppo.env_count": 2, "ppo.horizon": 16, "ppo.minibatch_size": 16, "total_steps": 32, "run": "tiny"}


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def my_package(install_package):
    """The package of the page, from its blocks of Python and TOML."""
    files = {re.match(r"# my_package/(\S+)\n", block)[1]: block for block in blocks("python")}
    groups = [tomllib.loads(block)["project"]["entry-points"] for block in blocks("toml")]
    points = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in found.items())
        for one in groups
        for group, found in one.items()
    ]
    install_package("my_package", {"__init__.py": "", **files}, "\n".join(points))
    load_plugins.cache_clear()
    yield
    load_plugins.cache_clear()
    gymnasium.registry.pop("MyPackage/Guess-v0", None)


def test_every_group_is_documented_with_an_example():
    shown = {group for block in blocks("toml") for group in tomllib.loads(block)["project"]["entry-points"]}
    assert shown == {f"palaestra.{group}" for group in plugins.GROUPS}
    rows = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    assert set(plugins.APP_PARTS) <= rows


def test_the_recipe_is_found(my_package):
    assert find_recipe("short-pole").config.env.max_episode_steps == 100


def test_the_environment_the_policy_and_the_logger_train_together(my_package, tmp_path):
    outcome = train(
        env={"id": "MyPackage/Guess-v0"},
        policy={"graph": "one-layer"},
        loggers={"plugins": ["returns"], "tensorboard": False},
        runs_root=tmp_path,
        **TINY,
    )
    directory = RunDirectory(tmp_path / "by-name" / outcome.record.name)
    lines = (directory.artifacts / "returns.txt").read_text().splitlines()
    assert len(lines) == 32
    assert {float(line.split()[1]) for line in lines} <= {0.0, 1.0}


def test_the_component_is_found(my_package):
    component = find_component("scale")
    made = component((Signal("input", (3,)),), component.Settings(factor=5.0), None)
    assert made.output.shape == (3,)
    assert made(torch.ones(2, 3)).tolist() == [[5.0] * 3] * 2


def test_the_executor_limits_a_sweep_to_one_trial_at_a_time(my_package):
    assert load_service("one-at-a-time", "trial_slots")(SlotRequest(count=7)).slots == 1
    assert callable(load_service("one-at-a-time", "launch"))


def test_the_worker_kind_checks_its_requests(my_package, tmp_path):
    kind = plugins.load("workers", "sleep")
    machine = Resources(cpus=2)
    assert kind.prepare(RunRequest("sleep", "", {"seconds": 3}), machine, tmp_path).config == {"seconds": 3}
    with pytest.raises(RequestRefused, match="Invalid value for seconds: soon"):
        kind.prepare(RunRequest("sleep", "", {"seconds": "soon"}), machine, tmp_path)


def test_the_apps_command_and_suite_are_found(my_package, capsys):
    assert main(["greet", "Ada", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"greeting": "Hello, Ada."}
    suite = find_suite("short", {"id": "CartPole-v1"})
    assert [one.env.max_episode_steps for one in suite.simulations] == [None, 50]
