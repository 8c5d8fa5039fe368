import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaestra.config.yaml_text import MAX_BYTES, MAX_DEPTH, dump_yaml, parse_yaml, read_yaml
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
