import json

import pytest

from palaestra.config.algorithms import ALGORITHMS


def test_every_algorithm_has_its_line(call):
    code, out, _ = call("algorithms")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:]] == [info.name for info in ALGORITHMS]
    assert [row["name"] for row in json.loads(call("algorithms", "--json")[1])] == [info.name for info in ALGORITHMS]


def test_one_algorithm_is_shown_with_its_papers_and_recipes(call):
    code, out, _ = call("algorithms", "sac")
    assert code == 0
    assert "arXiv:1812.05905" in out
    assert "halfcheetah" in out
    shown = json.loads(call("algorithms", "dqn", "--json")[1])
    assert {"cartpole", "acrobot", "mountaincar", "lunarlander"} <= set(shown["recipes"])
    assert shown["actions"] == ["discrete"]


def test_an_unknown_algorithm_is_replied_to_with_the_nearest(call):
    code, _, err = call("algorithms", "tqn")
    assert code == 3
    assert "No algorithm named 'tqn'. Did you mean" in err.replace("\n ", "")


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_recipes_have_settings_for_the_algorithms_that_fit_their_actions(call, env):
    rows = {row["env"]: row["algorithms"] for row in json.loads(call("recipes", "--json")[1])}
    assert rows[env] == {"CartPole-v1": ["ppo", "dqn", "pqn"], "Pendulum-v1": ["ppo", "sac", "td3"]}[env]
