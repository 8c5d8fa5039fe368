import sys

import pytest

from palaestra.cli.play import env_kwargs, find_env
from palaestra.config.env import EnvConfig
from palaestra.core.errors import UsageError

SMALL = ("env.kwargs.max_steps=5", "env.kwargs.agents=2")


@pytest.fixture
def play(terminal_of, workplace):
    def start(*words, **settings):
        return terminal_of([sys.executable, "-m", "palaestra", "play", *words], workplace, **settings)

    return start


def test_without_a_terminal_it_says_so(call):
    code, out, err = call("play", "arena.tiny")
    assert (code, out) == (2, "")
    assert "'palaestra play' needs a terminal" in err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["play"], 2, "needs a recipe or a run"),
        (["play", "arena.tyni"], 3, "Did you mean 'arena.tiny'"),
        (["play", "cartpole"], 2, "'CartPole-v1' cannot be played with the keyboard"),
        (["play", "arena.tiny", "env.kwarg.agents=2"], 2, "kwarg"),
        (["play", "arena.tiny", "--policy", "nobody"], 3, "No run named 'nobody'"),
        (["play", "arena.tiny", "--agent", "-1"], 2, "whole number"),
    ],
)
def test_what_cannot_be_played_is_refused_before_the_terminal_is_requested(call, words, code, message):
    got, out, err = call(*words)
    assert (got, out) == (code, "")
    assert message in err


def test_a_run_is_played_in_its_own_environment(runs):
    assert find_env("first", {}).id == "CartPole-v1"
    assert find_env("first", {"env": {"max_episode_steps": 9}}).max_episode_steps == 9


def test_settings_are_laid_over_those_of_the_recipe():
    env = find_env("arena.tiny", {"env": {"kwargs": {"agents": 3}}})
    assert env.kwargs["agents"] == 3
    assert env_kwargs(EnvConfig(id="E-v0", kwargs={"a": 1}, max_episode_steps=7)) == {"a": 1, "max_steps": 7}
    with pytest.raises(UsageError):
        find_env("arena.tiny", {"envv": {}})


def test_keys_play_steps_until_the_episode_ends(play):
    with play("arena.tiny", *SMALL) as terminal:
        terminal.wait_for("step 0/5")
        for step, key in enumerate(["w", "\x1b[C", " ", "."], start=1):
            terminal.press(key)
            terminal.wait_for(f"step {step}/5")
        terminal.press("x")  # means nothing, takes no time
        terminal.press("s")
        terminal.wait_for(r"(?s)steps +5.*reward")
        assert terminal.wait_for_end() == 0
        assert terminal.is_as_before()


def test_q_leaves_at_once_and_sums_up(play):
    with play("arena.tiny", *SMALL) as terminal:
        terminal.wait_for("step 0/5")
        terminal.press("dq")
        terminal.wait_for(r"steps +1")
        assert terminal.wait_for_end() == 0
        assert terminal.is_as_before()


def test_control_c_leaves_the_terminal_as_it_was(play):
    with play("arena.tiny", *SMALL) as terminal:
        terminal.wait_for("step 0/5")
        terminal.press("\x03")
        terminal.wait_for("interrupted")
        assert terminal.wait_for_end() == 130
        assert terminal.is_as_before()


def test_an_agent_that_there_is_not_is_refused_with_the_terminal_as_it_was(play):
    with play("arena.tiny", *SMALL, "--agent", "2") as terminal:
        terminal.wait_for("No agent 2: the arena has agents 0 to 1")
        assert terminal.wait_for_end() == 2
        assert terminal.is_as_before()


@pytest.mark.slow
def test_a_trained_policy_plays_the_others(play, call):
    words = ("run=crowd", "total_steps=512", "env.kwargs.max_steps=16", "--quiet")
    code, _, err = call("train", "arena.tiny", *words)
    assert code == 0, err
    with play("crowd", "--policy", "crowd:latest", "--seed", "4") as terminal:
        terminal.wait_for("step 0/16")
        terminal.press("w")
        terminal.wait_for("step 1/16")
        terminal.press("q")
        assert terminal.wait_for_end() == 0
