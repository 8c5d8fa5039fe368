import pytest
from pydantic import ValidationError

from palaestra.config.errors import describe_all, nearest_key
from palaestra.config.train import TrainConfig

KNOWN = ["seed", "ppo.gamma", "ppo.clip", "ppo.clip.start", "env.seed_offset", "total_steps", "total_ste_clip"]


@pytest.mark.parametrize(
    ("unknown", "meant"),
    [
        ("ppo.gama", "ppo.gamma"),  # a sibling goes before anything else
        ("gamma", "ppo.gamma"),  # the same last word elsewhere
        ("totalsteps", "total_steps"),
        ("gmma", "ppo.gamma"),  # a similar last word elsewhere
        ("total_ste.clip", "ppo.clip"),  # the same last word goes before a similar whole
        ("xyz", ""),
    ],
)
def test_the_nearest_key_is_the_one_that_was_most_likely_meant(unknown, meant):
    assert nearest_key(unknown, KNOWN) == meant


def test_every_mistake_becomes_a_message_with_the_key_in_it():
    with pytest.raises(ValidationError) as caught:
        TrainConfig.model_validate({"total_steps": "many", "nope": 1, "ppo": {"gamma": 7}, "env": {"id": ""}})
    messages = [message for message, _ in describe_all(TrainConfig, caught.value)]
    assert len(messages) == 4
    assert all(any(key in message for message in messages) for key in ("total_steps", "nope", "ppo.gamma", "env.id"))


def test_a_long_value_is_cut_in_the_message():
    with pytest.raises(ValidationError) as caught:
        TrainConfig.model_validate({"seed": "x" * 5000})
    ((message, _),) = describe_all(TrainConfig, caught.value)
    assert len(message) < 300


def test_reasons_are_told_in_our_words_and_not_in_those_of_pydantic():
    wrong = {
        "total_steps": -1,
        "seed": "x",
        "device": "tpu",
        "ppo": {"gamma": 7, "learning_rate": "fast", "normalize_returns": "perhaps", "minibatch_size": 1.5},
        "env": 5,
    }
    with pytest.raises(ValidationError) as caught:
        TrainConfig.model_validate(wrong)
    messages = " ".join(message for message, _ in describe_all(TrainConfig, caught.value))
    assert "it must be at least 1" in messages
    assert "it must be at most 1" in messages
    assert "it must be a whole number" in messages
    assert "'auto', 'cpu' or 'cuda'" in messages
    assert not any(words in messages for words in ("Input", "should", "parse", "valid "))
