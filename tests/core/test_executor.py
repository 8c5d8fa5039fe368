import pytest

from palaestra.core.errors import NotFound, UsageError
from palaestra.core.executor import Executor, executor_names, has_service, load_service

MODULE = """
import math

from palaestra.core.executor import Executor

MINE = Executor(launch="math:sin", remote_evaluator="no_such_module:thing")
"""


@pytest.fixture
def installed(install_package):
    points = "[palaestra.executors]\nmine = farm:MINE\nold = math:cos\nwrong = math:pi\n"
    install_package("farm", MODULE, points)


def test_executors_of_other_packages_are_found_by_name(installed):
    assert {"local", "ray", "mine"} <= set(executor_names())
    assert load_service("mine", "launch")(0.0) == 0.0


def test_a_service_that_an_executor_lacks_is_named_with_the_executors_there_are(installed):
    assert has_service("ray", "remote_evaluator")
    assert not has_service("local", "remote_evaluator")
    assert not has_service("elsewhere", "launch")
    with pytest.raises(UsageError, match="The executor 'mine' has no trial_slots") as failed:
        load_service("mine", "trial_slots")
    assert failed.value.hint == "Executors: local, mine, old, ray, wrong."


def test_a_service_that_cannot_be_imported_is_named(installed):
    with pytest.raises(UsageError, match=r"The remote_evaluator of the executor 'mine' \(no_such_module:thing\)"):
        load_service("mine", "remote_evaluator")


def test_a_function_is_accepted_as_an_executor_that_only_launches_ranks(installed):
    assert load_service("old", "launch")(0.0) == 1.0
    assert not has_service("old", "trial_slots")


def test_anything_else_is_refused(installed):
    with pytest.raises(UsageError, match="The executor 'wrong' is a float, not a palaestra.core.executor.Executor"):
        load_service("wrong", "launch")


def test_an_unknown_executor_is_refused_with_the_nearest():
    with pytest.raises(NotFound, match="No executor named 'rai'"):
        load_service("rai", "launch")
    assert Executor() == Executor(None, None, None)
