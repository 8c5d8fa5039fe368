from dataclasses import dataclass, field
from typing import Literal

import pytest

from palaestra.apps.scripts.launcher.tyro_substitute import cli


@dataclass
class Args:
    env_id: str = "X"
    learning_rate: float = 1e-3
    track: bool = False
    cuda: bool = True
    target_kl: float | None = 0.5
    mode: Literal["a", "b"] = "a"
    sizes: list[int] = field(default_factory=lambda: [1])


def test_without_settings_the_defaults_apply():
    assert cli(Args, args=[]) == Args()


def test_every_kind_of_argument_can_be_given():
    arguments = ["--env-id", "Y", "--learning-rate", "2", "--track", "--no-cuda", "--target-kl", "None", "--mode", "b"]
    arguments += ["--sizes", "3", "4"]
    assert cli(Args, args=arguments) == Args("Y", 2.0, True, False, None, "b", [3, 4])


def test_an_unknown_flag_is_refused_as_parsers_do(capsys):
    with pytest.raises(SystemExit) as left:
        cli(Args, args=["--env", "Y"])
    assert left.value.code == 2
    assert "--env" in capsys.readouterr().err
