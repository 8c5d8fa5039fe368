import json

import gymnasium
from gymnasium.envs.registration import registry

from palaestra.cli.envs import describe, find_specs


def test_ids_are_listed_with_the_kinds_of_their_spaces(call):
    rows = {row["id"]: row for row in json.loads(call("envs", "--json")[1])}
    assert rows["CartPole-v1"]["actions"] == "discrete 2"
    assert rows["Pendulum-v1"]["observations"] == "box 3"
    assert rows["Walker2d-v5"]["extra"] == "mujoco"


def test_only_the_newest_versions_unless_all_are_requested():
    newest = {spec.id for spec in find_specs("", everything=False)}
    assert "CartPole-v1" in newest
    assert "CartPole-v0" not in newest
    assert {spec.id for spec in find_specs("", everything=True)} == set(registry)


def test_a_filter_that_fits_nothing_says_so(call):
    code, out, err = call("envs", "zzzz")
    assert (code, out) == (0, "")
    assert "zzzz" in err


def test_what_needs_a_missing_extra_is_marked_and_not_made(call, monkeypatch):
    monkeypatch.setattr("palaestra.config.recipes.registry.find_spec", lambda _name: None)
    monkeypatch.setattr(gymnasium, "make", lambda *_args, **_kwargs: 1 / 0)
    (row,) = json.loads(call("envs", "Walker2d", "--json")[1])
    assert (row["installed"], row["actions"]) == (False, None)
    assert "mujoco (missing)" in call("envs", "Walker2d")[1]


def test_ids_that_only_say_that_they_are_gone_are_never_made():
    gone = next(spec for spec in registry.values() if callable(spec.entry_point))
    assert describe(gone, with_spaces=True)["actions"] is None
