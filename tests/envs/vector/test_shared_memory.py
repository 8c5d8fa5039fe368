"""Memory that several processes see."""

import os

import numpy as np
import pytest

from palaestra.envs.vector import shared_memory
from palaestra.envs.vector.shared_memory import LINE, Field, lay_out, new_memory

FIELDS = [
    Field("marks", "<i8", (3, 2)),
    Field("seen", "|u1", (5, 7)),
    Field("nothing", "<f4", (4, 0)),
    Field("rewards", "<f8", (5,)),
]


@pytest.fixture(params=["without a name", "as a file"])
def memory(request, monkeypatch, tmp_path):
    if request.param == "as a file":

        def refused(name):
            raise PermissionError(name)

        monkeypatch.setattr(os, "memfd_create", refused, raising=False)
        monkeypatch.setattr(shared_memory, "frame_buffers_directory", lambda: tmp_path)
    descriptor = new_memory()
    assert list(tmp_path.iterdir()) == []  # no name, nothing to be left behind
    yield descriptor
    os.close(descriptor)


def test_equal_fields_share_the_same_memory(memory):
    here, there = lay_out(memory, FIELDS), lay_out(os.dup(memory), FIELDS)
    for number, field in enumerate(FIELDS):
        assert here[field.name].shape == field.shape
        assert here[field.name].dtype.str == field.dtype
        here[field.name][...] = number + 1
    for number, field in enumerate(FIELDS):  # written one after the other: nothing lies over another
        assert np.all(there[field.name] == number + 1)


def test_every_field_begins_on_a_line_of_its_own(memory):
    locations = [part.ctypes.data for part in lay_out(memory, FIELDS).values()]
    assert all(location % LINE == 0 for location in locations)


def test_memory_that_cannot_be_had_is_an_error_now_and_not_a_signal_later(memory, monkeypatch):
    def full(descriptor, begin, size):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space"):
        lay_out(memory, FIELDS)
