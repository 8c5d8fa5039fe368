from palaestra.cli.keys_help import complete_keys, key_lines, show
from palaestra.config.keys import list_keys
from palaestra.config.schedule import linear
from palaestra.config.train import TrainConfig


def test_every_key_is_listed_with_default_type_and_meaning():
    text = "\n".join(key_lines(list_keys(TrainConfig)))
    for key in list_keys(TrainConfig):
        assert f"    {key.path}={show(key.default)}\n        {key.accepts}; {key.description}" in text
    assert "    run=" in text


def test_values_are_shown_as_they_would_be_typed():
    typed = [show(value) for value in (None, True, (), ("a", "b"), 1e-5, 100_000, linear(0.1))]
    assert typed == ["null", "true", "[]", "[a, b]", "1e-05", "100000", "linear 0.1 to 0"]


def test_keys_are_completed_up_to_the_equals_sign_and_then_their_choices():
    assert "ppo.clip=" in complete_keys("pp")
    assert "run=" in complete_keys("")
    assert complete_keys("loggers.csv=") == ["loggers.csv=true", "loggers.csv=false"]
    assert complete_keys("total_steps=") == []
