import json
from dataclasses import asdict

import pytest

from palaestra.algorithms.group import Group
from palaestra.core.errors import UsageError
from palaestra.runner.code_check import accepts_different_ranks, imported_modules, require_same_code
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


def test_either_setting_accepts_ranks_with_different_code(small_config):
    assert not accepts_different_ranks(small_config())
    for section in ("distributed", "cluster"):
        assert accepts_different_ranks(small_config(**{section: {"allow_different_code": True}}))
