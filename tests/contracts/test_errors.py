import pytest

from palaestra.contracts import errors
from palaestra.contracts.errors import MissingExtra, PalaestraError, did_you_mean


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("PalaestraError", 1),
        ("UsageError", 2),
        ("NotFound", 3),
        ("MissingExtra", 4),
        ("RunFailed", 1),
        ("NonFinite", 1),
        ("DamagedFile", 1),
        ("RefusedFile", 1),
        ("BelowScore", 5),
    ],
)
def test_exit_codes_are_those_of_the_contract(name, code):
    kind = getattr(errors, name)
    assert kind.exit_code == code
    assert issubclass(kind, PalaestraError)


def test_a_missing_extra_says_how_to_install_it():
    assert "pip install 'palaestra[mujoco]'" in str(MissingExtra("Walker2d-v5", "mujoco"))


def test_an_error_reads_as_message_and_hint():
    assert str(PalaestraError("It broke.", "Try again.")) == "It broke. Try again."
    assert str(PalaestraError("It broke.")) == "It broke."


def test_did_you_mean_is_silent_when_nothing_is_near():
    assert did_you_mean("cartpol", ["cartpole", "pendulum"]) == "Did you mean 'cartpole'?"
    assert did_you_mean("xyz", ["cartpole"]) == ""
    assert did_you_mean("xyz", []) == ""
