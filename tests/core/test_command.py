import dataclasses

import pytest

from palaestra.core.command import Answer, CommandPlugin


def test_a_plugin_and_its_answer_cannot_be_changed():
    plugin = CommandPlugin("says it", ("palaestra a", "palaestra b", "palaestra c"), lambda _parser: None, "a:b")
    for value, name in ((plugin, "work"), (Answer({}), "exit_code")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, "other")


def test_an_answer_that_says_nothing_else_is_a_success():
    assert Answer({"a": 1}).exit_code == 0
