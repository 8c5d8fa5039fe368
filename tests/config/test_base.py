import pytest
from pydantic import ValidationError

from palaestra.config.base import Frozen, note_old_name, rename_keys
from palaestra.config.overrides import parse_overrides
from palaestra.config.resolve import resolve_config
from palaestra.config.train import TrainConfig


class Example(Frozen):
    count: int = 1
    ratio: float | None = None
    flag: bool = False
    word: str = "a"


def test_a_configuration_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        Example().count = 2


def test_an_unknown_key_is_an_error():
    with pytest.raises(ValidationError, match="extra_forbidden"):
        Example.model_validate({"cuont": 2})


@pytest.mark.parametrize("key", ["count", "ratio"])
def test_a_boolean_is_not_accepted_as_a_number(key):
    with pytest.raises(ValidationError, match="must be a number"):
        Example.model_validate({key: True})
    assert Example(flag=True).flag is True


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_are_finite(value):
    with pytest.raises(ValidationError):
        Example(ratio=value)


def test_a_plain_section_takes_overrides_as_they_are():
    assert Example.normalize_override({"count": 2}, {"count": 1}) == {"count": 2}
    assert Example.shorthand == ""


def test_renaming_keeps_the_order_and_a_key_whose_new_name_is_taken():
    assert list(rename_keys({"a": 1, "old": 2, "b": 3}, {"old": "new"}).items()) == [("a", 1), ("new", 2), ("b", 3)]
    assert rename_keys({"old": 2, "new": 3}, {"old": "new"}) == {"old": 2, "new": 3}


def test_the_old_section_sinks_sets_the_loggers_with_a_note_for_all_uses(caplog):
    note_old_name.cache_clear()
    for _ in range(2):
        config = resolve_config(TrainConfig, None, parse_overrides(["sinks.csv=true", "loggers.console=false"]))
        assert (config.loggers.csv, config.loggers.console) == (True, False)
    assert [record.getMessage() for record in caplog.records] == [
        "Config key 'sinks' is now 'loggers'. The old name still works in this version."
    ]


def test_a_stored_config_with_the_old_section_is_read_without_a_note(caplog):
    stored = TrainConfig().model_dump(mode="json")
    stored["sinks"] = {**stored.pop("loggers"), "csv": True}
    assert TrainConfig.model_validate(stored).loggers.csv
    assert TrainConfig(sinks={"csv": True}).loggers.csv
    assert not caplog.records
