import pytest

from palaestra.cluster.whereabouts import VARIABLE, Whereabouts, common_whereabouts, whereabouts_of
from palaestra.contracts.errors import UsageError
from palaestra.contracts.run import RunRequest
from palaestra.runs.store import RunStore


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


def run_with(tmp_path, name, **cluster):
    config = {"cluster": cluster} if cluster else {}
    return RunStore(tmp_path).create(RunRequest(kind="native", recipe="", config={}), config=config, name=name)


def test_a_run_that_says_nothing_means_a_ray_of_this_machine_unless_the_variable_names_one(tmp_path, monkeypatch):
    directory = run_with(tmp_path, "silent")
    assert whereabouts_of(directory) == Whereabouts(None, None)
    monkeypatch.setenv(VARIABLE, "head:6379")
    assert whereabouts_of(directory) == Whereabouts("head:6379")


def test_what_the_configuration_says_goes_before_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "head:6379")
    assert whereabouts_of(run_with(tmp_path, "a", address="own:1", cpus=None)) == Whereabouts("own:1")
    assert whereabouts_of(run_with(tmp_path, "b", address=None, cpus=2)) == Whereabouts("head:6379", 2)


def test_several_runs_must_agree_unless_somebody_says_which(tmp_path):
    first, second = run_with(tmp_path, "a", address="one:1"), run_with(tmp_path, "b", address="two:2")
    silent = run_with(tmp_path, "c")
    assert common_whereabouts([first, silent, None]) == Whereabouts("one:1")
    assert common_whereabouts([first, second], "three:3") == Whereabouts("three:3")
    with pytest.raises(UsageError, match="different clusters: one:1, two:2"):
        common_whereabouts([first, second])


def test_a_run_whose_configuration_is_gone_says_nothing(tmp_path):
    directory = run_with(tmp_path, "a", address="one:1")
    directory.config_file.unlink()
    assert whereabouts_of(directory) == Whereabouts()
