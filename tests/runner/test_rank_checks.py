import json
from dataclasses import asdict

import pytest

from palaestra.algorithms.group import Group
from palaestra.core.errors import UsageError
from palaestra.runner.rank_checks import (
    accepts_different_ranks,
    imported_modules,
    require_one_config,
    require_same_code,
    share_config,
)
from palaestra.runs.environment import CodeDifferences, code_identity, package_files


class PaperLeader(Group):
    """Rank 0 of two; the test makes what rank 1 sends."""

    world_size = 2

    def __init__(self, identity=None, files=None, versions=()):
        own = {"host": "beta", "identity": {**asdict(code_identity()), **(identity or {})}}
        package = {**package_files(), **files} if files else None
        found = CodeDifferences(tuple(versions), package)
        self.others = [json.dumps(own).encode(), json.dumps(asdict(found)).encode()]

    def gather_bytes(self, data):
        return [data, self.others.pop(0)]


def test_ranks_with_the_same_code_are_accepted(small_config):
    assert require_same_code(small_config(), PaperLeader()) == []


def test_different_code_is_refused_with_the_machine_and_the_files(small_config):
    group = PaperLeader({"package": "other"}, {"envs/make.py": "other"})
    with pytest.raises(UsageError, match=r"Rank 1 on beta has different code than rank 0: palaestra/envs/make\.py\."):
        require_same_code(small_config(), group)


def test_different_versions_are_refused_by_name(small_config):
    packages = {**code_identity().packages, "numpy": "0.1"}
    group = PaperLeader({"packages": packages}, versions=["numpy 0.1 (here 2.0)"])
    with pytest.raises(UsageError, match=r"numpy 0\.1 \(rank 0: "):
        require_same_code(small_config(), group)


def test_many_files_are_counted(small_config):
    group = PaperLeader({"package": "other"}, {f"new_{number}.py": "x" for number in range(8)})
    with pytest.raises(UsageError, match=r"new_4\.py and 3 more"):
        require_same_code(small_config(), group)


def test_accepted_differences_are_returned_for_the_journal(small_config):
    config = small_config(distributed={"allow_different_code": True})
    (found,) = require_same_code(config, PaperLeader({"package": "other"}, {"envs/make.py": "other"}))
    assert (found.rank, found.host, found.files) == (1, "beta", ["palaestra/envs/make.py"])


def test_modules_of_the_user_are_those_that_the_settings_name(small_config):
    config = small_config(env={"id": "my_envs.maze:Maze-v0"}, policy={"module": "my_policy:Net"})
    assert imported_modules(config) == ["my_envs.maze", "my_policy"]
    assert imported_modules(small_config()) == []


def test_one_setting_accepts_ranks_with_different_code(small_config, caplog):
    assert not accepts_different_ranks(small_config())
    assert accepts_different_ranks(small_config(distributed={"allow_different_code": True}))
    assert caplog.messages == []


def test_the_setting_of_evaluations_accepts_ranks_with_a_note(small_config, caplog):
    assert accepts_different_ranks(small_config(cluster={"allow_different_code": True}))
    assert "is called distributed.allow_different_code" in caplog.text


def test_ranks_with_other_settings_are_refused_by_name(small_config, two_ranks):
    other = json.dumps([small_config(seed=9).model_dump(mode="json"), None]).encode()
    with pytest.raises(UsageError, match=r"Rank 1 has a different configuration(.|\n)*seed"):
        require_one_config(small_config(), two_ranks(others=(other,)))
    same = json.dumps([small_config().model_dump(mode="json"), None]).encode()
    require_one_config(small_config(), two_ranks(others=(same,)))


def test_ranks_may_have_interfaces_of_their_own(small_config, two_ranks):
    other = small_config(distributed={"interface": "eth1"}).model_dump(mode="json")
    require_one_config(small_config(), two_ranks(others=(json.dumps([other, None]).encode(),)))


def test_a_rank_that_takes_the_leaders_settings_is_compared_in_what_it_was_given(small_config, two_ranks):
    require_one_config(small_config(), two_ranks(others=(json.dumps([{"seed": 1}, {"seed": 1}]).encode(),)))
    with pytest.raises(UsageError, match=r"seed: 1 -> 9"):
        require_one_config(small_config(), two_ranks(others=(json.dumps([{"seed": 9}, {"seed": 9}]).encode(),)))


def test_all_ranks_train_with_the_leaders_settings_and_their_own_interface(small_config, two_ranks):
    leader = two_ranks()
    share_config(small_config(seed=9), leader)
    follower = two_ranks(rank=1, told=leader.given)
    taken = share_config(small_config(seed=1, distributed={"interface": "eth1"}), follower)
    assert (taken.seed, taken.distributed.interface) == (9, "eth1")
