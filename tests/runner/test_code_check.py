import json
from dataclasses import asdict

import pytest

from palaestra.algorithms.group import Group
from palaestra.core.errors import UsageError
from palaestra.runner.code_check import demand_same_code, imported_modules
from palaestra.runs.code_identity import code_identity, package_files


class PaperLeader(Group):
    """Rank 0 of two; what rank 1 gives is played by hand."""

    world_size = 2

    def __init__(self, identity=None, files=None):
        own = {"host": "beta", "identity": {**asdict(code_identity()), **(identity or {})}}
        self.others = [json.dumps(own).encode(), json.dumps({**package_files(), **(files or {})}).encode()]

    def gather_bytes(self, data):
        return [data, self.others.pop(0)]


def test_ranks_with_the_same_code_train(small_config):
    assert demand_same_code(small_config(), PaperLeader()) == []


def test_other_code_is_refused_with_the_machine_and_the_files(small_config):
    group = PaperLeader({"package": "other"}, {"envs/make.py": "other"})
    with pytest.raises(UsageError, match=r"Rank 1 on beta has other code than rank 0: envs/make\.py\."):
        demand_same_code(small_config(), group)


def test_other_versions_are_refused_by_name(small_config):
    group = PaperLeader({"packages": {**code_identity().packages, "numpy": "0.1"}})
    with pytest.raises(UsageError, match=r"numpy 0\.1 \(rank 0: "):
        demand_same_code(small_config(), group)


def test_many_files_are_counted(small_config):
    group = PaperLeader({"package": "other"}, {f"new_{number}.py": "x" for number in range(8)})
    with pytest.raises(UsageError, match=r"new_4\.py and 3 more"):
        demand_same_code(small_config(), group)


def test_accepted_by_setting_the_difference_is_given_back_for_the_journal(small_config):
    config = small_config(distributed={"allow_different_code": True})
    (found,) = demand_same_code(config, PaperLeader({"package": "other"}, {"envs/make.py": "other"}))
    assert (found.rank, found.host, found.files) == (1, "beta", ["envs/make.py"])


def test_modules_of_the_user_are_those_that_the_settings_name(small_config):
    config = small_config(env={"id": "my_envs.maze:Maze-v0"}, policy={"module": "my_policy:Net"})
    assert imported_modules(config) == ["my_envs.maze", "my_policy"]
    assert imported_modules(small_config()) == []
