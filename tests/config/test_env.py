import pytest
from pydantic import ValidationError

from palaestra.config.env import EnvConfig


def test_a_bare_name_is_an_id():
    assert EnvConfig.model_validate("Pendulum-v1") == EnvConfig(id="Pendulum-v1")


def test_another_environment_takes_nothing_over():
    standing = {"id": "A-v0", "kwargs": {"x": 1}, "max_episode_steps": 5}
    settled = EnvConfig.settle("B-v0", standing)
    assert standing | settled == {"id": "B-v0"}


@pytest.mark.parametrize("value", [{"id": ""}, {"max_episode_steps": 0}, {"id": 5}])
def test_what_cannot_be_an_environment_is_refused(value):
    with pytest.raises(ValidationError):
        EnvConfig.model_validate(value)


def test_two_of_them_do_not_share_their_kwargs():
    first, second = EnvConfig(), EnvConfig()
    first.kwargs["x"] = 1
    assert second.kwargs == {}


def test_it_reads_as_its_id():
    assert str(EnvConfig(id="A-v0")) == "A-v0"
