"""The quick reader against the complete one: equal, or it does not answer."""

import math
import string
import tracemalloc
from hashlib import sha256

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from palaestra.config.plain_yaml import NOT_PLAIN, read_plain_yaml, write_plain_yaml
from palaestra.config.yaml_text import dump_carefully, dump_yaml, parse_carefully
from palaestra.core.errors import DamagedFile

KEYS = st.text(string.ascii_letters + string.digits + "_.-/ ", min_size=1, max_size=8)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(
        ["null", "yes", "1e5", "0x1f", "2026-01-02", "1_000", "", " ", "- a", "a: b", "#", "0o7", "012", "~"]
    ),
    st.text(string.hexdigits, min_size=1, max_size=12),
)
DATA = st.recursive(SCALARS, lambda parts: st.lists(parts, max_size=4) | st.dictionaries(KEYS, parts, max_size=4))
PIECES = ["a", "b:", "- ", "  ", "\n", ": ", "'", '"', "1", "0", ".", "e", "-", "+", "null", "{}", "[]", "#", "\t", "é"]


def same(one, other):
    """Equal with a NaN equal to a NaN, and 1 not equal to 1.0 or True."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other or (isinstance(one, float) and math.isnan(one) and math.isnan(other))


def answer(text):
    try:
        return parse_carefully(text, "it")
    except DamagedFile as refusal:
        return refusal


@given(DATA)
@settings(max_examples=100, deadline=None)
def test_what_we_write_is_read_as_the_complete_reader_reads_it(data):
    text = dump_yaml(data)
    quick = read_plain_yaml(text)
    assert quick is NOT_PLAIN or same(quick, answer(text))


@given(DATA)
@settings(max_examples=300, deadline=None)
@example({"a": [{"b": [], "c": {}}, [[1, -0.0], ["x y"]]], "d": {"e": 1e-05, "f": 1e16, "g": -math.inf, "h": math.nan}})
@example({"yes": 1})
@example({"a": "yes", "b": "2026-01-02", "c": "1_000", "d": "null"})
@example({"a": True, "b": 1, "c": 1.0, "d": 10**19})
@example([])
@example("a")
def test_what_is_written_quickly_is_what_the_complete_writer_writes(data):
    quick = write_plain_yaml(data)
    assert quick is NOT_PLAIN or quick == dump_carefully(data)


def test_what_is_shared_is_written_out_or_left_to_the_complete_writer():
    shared = [1, 2]
    assert write_plain_yaml({"a": shared, "b": shared}) == "a:\n- 1\n- 2\nb:\n- 1\n- 2\n"
    endless: list = []
    endless.append(endless)
    assert write_plain_yaml(endless) is NOT_PLAIN


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@settings(max_examples=300, deadline=None)
@example("a: 1\na: 2\n")
@example("a:\n- 1\n - 2\n")
@example("- - a: 1\n    b: 2\n")
@example("a: 0.1.2\n")
@example("a: 1.\n")
@example("1: a\n")
def test_of_any_other_text_it_says_the_same_or_nothing(text):
    for whole in (text, text + "\n"):
        quick = read_plain_yaml(whole)
        assert quick is NOT_PLAIN or same(quick, answer(whole))


def test_a_sidecar_is_plain_through_and_through():
    content = {
        "epoch": 45,
        "total_time": 2.5939,
        "policy": {"graph": "mlp", "module": None, "settings": {}, "compile": False},
        "interface": {"shape": [4], "low": [-math.inf, -0.4], "parts": [["cells", {"kind": "box", "shape": [1, 2]}]]},
        "versions": {"python": "3.11.7", "torch": "2.13.0+cpu"},
        "git_commit": "",
        "files": {"model_0045.safetensors": {"size": 37756, "sha256": "70fe2d6b9c0f"}},
        "tiny": 1e-05,
    }
    text = write_plain_yaml(content)
    assert text == dump_carefully(content)
    assert read_plain_yaml(text) == content


def test_two_empty_settings_are_not_one_and_the_same():
    read = read_plain_yaml("a: {}\nb: {}\n")
    assert read["a"] is not read["b"]


@pytest.mark.parametrize(
    "text", ["a: &x 1\n", "a: *x\n", "a: !!python/name:os.system\n", "? a\n", "a: |\n  b\n", "a: 1"]
)
def test_what_needs_thought_is_left_to_the_complete_reader(text):
    assert read_plain_yaml(text) is NOT_PLAIN


def test_depth_is_bounded():
    deep = "".join(f"{'  ' * level}a:\n" for level in range(60)) + "  " * 60 + "a: 1\n"
    assert read_plain_yaml(deep) is NOT_PLAIN


def sidecar_like(number):
    """Twelve lines that no other has."""
    numbers = [f"key_{number}_{line}: {number * line}.{line}" for line in range(1, 7)]
    digests = [f"sha256_{line}: {sha256(bytes((line,)) * number).hexdigest()}" for line in range(1, 7)]
    return "\n".join([*numbers, *digests, ""])


def test_a_long_training_does_not_remember_what_its_sidecars_said():
    """One that saves every second brings new words with each. They filled 3 MB before any was forgotten."""
    tracemalloc.start()
    try:
        for number in range(1, 1201):
            assert write_plain_yaml(read_plain_yaml(sidecar_like(number))) == sidecar_like(number)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 1_000_000
