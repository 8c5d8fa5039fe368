import json

import numpy as np
import pytest

from palaestra.rendering.messages import pack, unpack


def test_plain_data_bytes_arrays_and_scalars_come_back_as_they_were():
    content = {
        "text": "a",
        "nested": [{"bytes": b"\x00\x01"}, None, True, 1.5, 2**70],
        "array": np.arange(6, dtype=np.int16).reshape(2, 3),
        "scalar": np.float32(0.1),
    }
    found = unpack(*pack(content))
    assert found["text"] == "a"
    assert found["nested"] == content["nested"]
    assert found["array"].dtype == np.int16
    assert found["array"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert isinstance(found["scalar"], np.float32)
    assert found["scalar"] == np.float32(0.1)


def test_a_message_without_bytes_is_json_alone():
    header, tail = pack({"a": [1]})
    assert (json.loads(header), tail) == ({"a": [1]}, b"")
    assert pack(None) == (b"", b"")


def test_what_is_not_plain_is_refused_by_its_type():
    with pytest.raises(TypeError, match="object is not plain data"):
        pack({"a": object()})
