import json
from dataclasses import replace

import pytest

from palaestra.cluster.answers import OtherCode
from palaestra.cluster.share import (
    describe_other_code,
    imported_modules,
    other_code,
    own_code,
    share_from_json,
    share_to_json,
    shorten,
)
from palaestra.core.evaluation import EvaluationPlan, EvaluationRequest
from palaestra.runs.code_identity import code_identity


def plan_of(*seeds, simulation="default", env_id="CartPole-v1"):
    return EvaluationPlan("run:3", env_id, {"sutton_barto_reward": True}, seeds, simulation=simulation)


def request_of(*plans):
    return EvaluationRequest("run", "name", 3, 300, "ab" * 32, plans, {"palaestra": "0.1.0"}, "c0ffee")


def there(found):
    return OtherCode(**json.loads(json.dumps(found)))


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    own_code.cache_clear()
    (tmp_path / "my_maze.py").write_text("size = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "my_maze.py"
    own_code.cache_clear()


def test_a_share_arrives_with_the_whole_simulation_the_code_and_no_other():
    request = request_of(plan_of(1, 2, 3), plan_of(1, 2, 3, simulation="other"))
    text = share_to_json(request, plan_of(2, 3), trust_module=True, code=code_identity(), allow_different_code=True)
    share = share_from_json(text)
    assert share.plan == plan_of(2, 3)
    assert (share.trust_module, share.allow_different_code, share.code) == (True, True, code_identity())
    assert (share.request.weights, share.request.git_commit, share.request.versions) == (
        request.weights,
        "c0ffee",
        {"palaestra": "0.1.0"},
    )


def test_what_travels_is_json():
    fields = json.loads(share_to_json(request_of(plan_of(1)), plan_of(1), trust_module=False, code=code_identity()))
    assert set(fields) == {"request", "trust_module", "code", "allow_different_code"}
    assert json.loads(fields["request"])["plans"][0]["seeds"] == [1]


def test_the_same_code_is_not_worth_a_word():
    assert other_code(code_identity()) is None


@pytest.mark.parametrize("change", [{"python": "3.9"}, {"packages": {"torch": "1.0"}}])
def test_another_python_or_torch_is_named_with_both_versions(change):
    asked = replace(code_identity(), **change)
    (line,) = describe_other_code(there(other_code(asked)))
    assert ("3.9" in line) or ("torch" in line and "1.0" in line)
    assert there(other_code(asked)).concerns_all


def test_edited_files_of_palaestra_are_named(monkeypatch):
    asked = replace(code_identity(), package="of another edit")
    found = other_code(asked)
    found["package"] = {**found["package"], "envs/make.py": "edited"}
    assert describe_other_code(there(found)) == ["palaestra/envs/make.py"]


def test_an_edited_module_of_the_user_concerns_only_who_imports_it(own_module):
    asked = code_identity(["my_maze"])
    assert other_code(asked) is None
    own_code.cache_clear()
    own_module.write_text("size = 4\n")
    found = there(other_code(asked))
    assert not found.concerns_all
    own_module.write_text("size = 3\n")
    assert describe_other_code(found) == ["my_maze.py"]


def test_a_module_that_a_worker_lacks_is_said(own_module):
    asked = code_identity(["my_maze"])
    own_module.unlink()
    assert describe_other_code(there(other_code(asked))) == ["my_maze (not found there)"]


def test_modules_are_those_of_environments_and_of_the_policy():
    plans = [plan_of(1), plan_of(1, env_id="my_maze:Maze-v0"), plan_of(1, env_id="my_maze:Maze-v0")]
    assert imported_modules(plans, {"graph": "mlp", "module": "nets.small:Net"}) == ("my_maze", "nets.small")
    assert imported_modules(plans[:1], {"module": None}) == ()


def test_many_files_are_counted():
    assert shorten([f"{letter}.py" for letter in "abcdefg"]) == "a.py, b.py, c.py, d.py, e.py and 2 more"
    assert shorten(["a.py"]) == "a.py"
