import json

from palaestra.config.recipes.registry import recipe_names


def test_every_recipe_has_its_line(call):
    code, out, _ = call("recipes")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:]] == recipe_names()
    assert [row["name"] for row in json.loads(call("recipes", "--json")[1])] == recipe_names()


def test_a_filter_looks_into_name_and_environment(call):
    assert {row["name"] for row in json.loads(call("recipes", "WALKER", "--json")[1])} == {
        "bipedalwalker",
        "bipedalwalker-hardcore",
        "walker2d",
    }
    code, out, err = call("recipes", "zzz")
    assert (code, out) == (0, "")
    assert "zzz" in err


def test_a_recipe_whose_extra_is_missing_is_listed_with_a_mark(call, monkeypatch):
    monkeypatch.setattr("palaestra.config.recipes.registry.find_spec", lambda _name: None)
    lines = {line.split()[0]: line for line in call("recipes")[1].splitlines()}
    assert "mujoco (missing)" in lines["walker2d"]
    assert "missing" not in lines["cartpole"]
