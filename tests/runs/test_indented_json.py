import gc
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.runs.indented_json import indented

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
DATA = st.recursive(
    SCALARS,
    lambda parts: st.lists(parts) | st.lists(parts).map(tuple) | st.dictionaries(st.text(), parts),
    max_leaves=20,
)


@given(DATA)
@settings(max_examples=200, deadline=None)
def test_the_text_is_that_of_the_standard_library(data):
    assert indented(data) == json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)


@pytest.mark.parametrize(
    "value",
    [float("nan"), {"a": [float("inf")]}, {"a": {1, 2}}, object()],
    ids=["NaN", "an infinity", "a set", "an object"],
)
def test_what_is_no_json_is_refused_as_there(value):
    with pytest.raises((ValueError, TypeError)) as standard:
        json.dumps(value, indent=2, allow_nan=False)
    with pytest.raises(standard.type):
        indented(value)


def test_nothing_is_left_to_the_collector():
    data = {"run": {"steps": 5, "summary": {"score": 1.5, "tags": ["a", "b"]}}}
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            indented(data)
        assert gc.collect() == 0
    finally:
        gc.enable()
