from __future__ import annotations

import math
import string
import time
import tracemalloc
from hashlib import sha256

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from palaestra.config.yaml import (
    MAX_BYTES,
    MAX_DEPTH,
    NOT_SIMPLE,
    dump_full_yaml,
    dump_simple_yaml,
    dump_yaml,
    parse_full_yaml,
    parse_simple_yaml,
    parse_yaml,
    read_yaml,
)
from palaestra.core.errors import DamagedFile

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(plain)
def test_what_is_written_is_read_back_the_same(data):
    again = parse_yaml(dump_yaml(data))
    assert again == data
    assert type(again) is type(data)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e6", 1e6), ("1e-3", 1e-3), ("no", "no"), ("0x10", 16), ("2026-01-02", "2026-01-02"), ("", None)],
)
def test_scalars_follow_yaml_1_2_and_dates_stay_text(text, value):
    assert parse_yaml(text) == value


@pytest.mark.fault("C11")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("!!python/object/apply:os.system ['true']", "tag"),
        ("!!binary aGk=", "tag"),
        ("a: &x 1\nb: *x", "anchors"),
        ("a: 1\na: 2", "not valid YAML"),
        ("a: [1", "not valid YAML"),
        ("- " * (MAX_DEPTH + 1) + "1", "nested deeper"),
        ("--- 1\n--- 2", "not valid YAML"),
        (b"\xff\xfe\xfa", "not valid YAML"),
        ("9" * 5000, "not valid YAML"),
        ("%YAML 1.11\n--- 1", "not valid YAML"),
    ],
)
def test_what_is_not_plain_data_is_refused_by_name(text, said):
    with pytest.raises(DamagedFile, match=said) as caught:
        parse_yaml(text, "config.yaml")
    assert caught.value.message.startswith("config.yaml")


@pytest.mark.fault("C11")
@pytest.mark.parametrize("bomb", ["[" * 20_000, "{a: " * 20_000, "[" * 1_000_000, "- " * 20_000, "? " * 20_000])
def test_a_depth_bomb_is_refused_in_a_tenth_of_a_second_of_cpu(bomb):
    start = time.process_time()
    with pytest.raises(DamagedFile):
        parse_yaml(bomb)
    assert time.process_time() - start < 0.1


@pytest.mark.fault("C11")
def test_fifty_megabytes_are_refused_without_reading_them(tmp_path):
    path = tmp_path / "huge.yaml"
    with path.open("wb") as stream:
        stream.truncate(50_000_000)
    tracemalloc.start()
    with pytest.raises(DamagedFile, match=str(MAX_BYTES)):
        read_yaml(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * MAX_BYTES


def test_many_brackets_inside_a_text_are_no_bomb():
    assert parse_yaml('"' + "[" * 200 + '"') == "[" * 200
    assert parse_yaml("[" * MAX_DEPTH + "]" * MAX_DEPTH) is not None


def test_nesting_up_to_the_limit_is_read():
    depth, value = 0, parse_yaml("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    while isinstance(value, list):
        depth, value = depth + 1, (value[0] if value else None)
    assert depth == MAX_DEPTH


def test_a_file_is_read(tmp_path):
    (tmp_path / "a.yaml").write_text("a: [1, 2]\n")
    assert read_yaml(tmp_path / "a.yaml") == {"a": [1, 2]}


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
        return parse_full_yaml(text, "it")
    except DamagedFile as refusal:
        return refusal


@given(DATA)
@settings(max_examples=100, deadline=None)
def test_what_we_write_is_read_as_the_complete_reader_reads_it(data):
    text = dump_yaml(data)
    quick = parse_simple_yaml(text)
    assert quick is NOT_SIMPLE or same(quick, answer(text))


@given(DATA)
@settings(max_examples=300, deadline=None)
@example({"a": [{"b": [], "c": {}}, [[1, -0.0], ["x y"]]], "d": {"e": 1e-05, "f": 1e16, "g": -math.inf, "h": math.nan}})
@example({"yes": 1})
@example({"a": "yes", "b": "2026-01-02", "c": "1_000", "d": "null"})
@example({"a": True, "b": 1, "c": 1.0, "d": 10**19})
@example([])
@example("a")
def test_what_is_written_quickly_is_what_the_complete_writer_writes(data):
    quick = dump_simple_yaml(data)
    assert quick is NOT_SIMPLE or quick == dump_full_yaml(data)


def test_what_is_shared_is_written_out_or_left_to_the_complete_writer():
    shared = [1, 2]
    assert dump_simple_yaml({"a": shared, "b": shared}) == "a:\n- 1\n- 2\nb:\n- 1\n- 2\n"
    endless: list = []
    endless.append(endless)
    assert dump_simple_yaml(endless) is NOT_SIMPLE


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
        quick = parse_simple_yaml(whole)
        assert quick is NOT_SIMPLE or same(quick, answer(whole))


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
    text = dump_simple_yaml(content)
    assert text == dump_full_yaml(content)
    assert parse_simple_yaml(text) == content


def test_two_empty_settings_are_not_one_and_the_same():
    read = parse_simple_yaml("a: {}\nb: {}\n")
    assert read["a"] is not read["b"]


@pytest.mark.parametrize(
    "text", ["a: &x 1\n", "a: *x\n", "a: !!python/name:os.system\n", "? a\n", "a: |\n  b\n", "a: 1"]
)
def test_what_needs_thought_is_left_to_the_complete_reader(text):
    assert parse_simple_yaml(text) is NOT_SIMPLE


def test_depth_is_bounded():
    deep = "".join(f"{'  ' * level}a:\n" for level in range(60)) + "  " * 60 + "a: 1\n"
    assert parse_simple_yaml(deep) is NOT_SIMPLE


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
            assert dump_simple_yaml(parse_simple_yaml(sidecar_like(number))) == sidecar_like(number)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 1_000_000
