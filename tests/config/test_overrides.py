import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaestra.config.overrides import format_overrides, nest, parse_overrides, split_setting
from palaestra.core.errors import UsageError


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("a=1e6", 1e6),
        ("a=1e-3", 0.001),
        ("a=[1,2]", [1, 2]),
        ("a={b: 1}", {"b": 1}),
        ("a=null", None),
        ("a=true", True),
        ("a=no", "no"),  # YAML 1.1 would say False
        ("a='5'", "5"),
        ("a=x=y", "x=y"),
        ("a=ALE/Breakout-v5", "ALE/Breakout-v5"),
        ("a=module:Env-v0", "module:Env-v0"),
        ("a=2026-01-02", "2026-01-02"),
        ("a=-5", -5),
    ],
)
def test_the_right_hand_side_is_yaml_1_2(word, value):
    parsed = parse_overrides([word])["a"]
    assert parsed == value
    assert type(parsed) is type(value)


def test_dots_make_sections():
    assert parse_overrides(["ppo.gamma=0.9", "ppo.clip.end=0", "seed=3"]) == {
        "ppo": {"gamma": 0.9, "clip": {"end": 0}},
        "seed": 3,
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cartpole"], "not a setting"),
        (["=5"], "empty key"),
        (["a..b=5"], "empty key"),
        ([".a=5"], "empty key"),
        (["a=1", "a=2"], "set twice"),
        (["a=1", "a.b=2"], "the same thing"),
        (["a.b=2", "a=1"], "the same thing"),
        (["a=[1"], "cannot be read"),
        (["a=!!python/object:os.system {}"], "tag"),
        (["a=&x 1"], "anchors"),
        (["a="], "no value"),
    ],
)
def test_words_that_cannot_be_are_refused(words, said):
    with pytest.raises(UsageError, match=said):
        parse_overrides(words)


def test_a_key_that_only_begins_like_another_is_no_clash():
    assert parse_overrides(["clip=1", "clip_value=2"]) == {"clip": 1, "clip_value": 2}


def test_python_callers_may_write_dots_or_dictionaries():
    assert nest({"ppo.gamma": 0.9, "ppo.clip": 0.1}) == nest({"ppo": {"gamma": 0.9, "clip": 0.1}})
    with pytest.raises(UsageError, match="same thing"):
        nest({"ppo": {"gamma": 0.9}, "ppo.gamma": 0.8})


@pytest.mark.fault("X1")
@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_and_never_crashes(text):
    try:
        key, raw = split_setting(text)
        parse_overrides([text])
    except UsageError:
        return
    assert text == f"{key}={raw}"


KEYS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), VALUES, max_size=4))
def test_words_made_of_settings_read_back_as_the_same_settings(config):
    assert parse_overrides(format_overrides(config)) == config


def test_a_key_with_a_dot_is_written_inside_its_section():
    assert format_overrides({"kwargs": {"a.b": 1}, "ppo": {"gamma": 0.9}}) == ['kwargs={"a.b": 1}', "ppo.gamma=0.9"]
