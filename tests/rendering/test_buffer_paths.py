import tempfile
from pathlib import Path

import pytest

from palaestra.rendering import buffer_paths as place
from palaestra.rendering.buffer_paths import (
    VARIABLE,
    all_frame_buffers,
    frame_buffer_path,
    frame_buffers_directory,
    role_of_rank,
    roles_of,
)
from palaestra.rendering.errors import InvalidRequest


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """What stands for the machine's memory, for somebody who said nothing of buffers."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(place, "MEMORY", tmp_path)
    return tmp_path


def test_lanes_lie_in_shared_memory_where_there_is_some(memory):
    assert frame_buffers_directory() == memory
    assert frame_buffer_path("01ABC").parent == memory


def test_memory_that_is_missing_closed_or_of_no_size_is_not_used(memory, monkeypatch):
    elsewhere = Path(tempfile.gettempdir())
    with monkeypatch.context() as closed:
        closed.setattr(place.os, "access", lambda path, mode: False)
        assert frame_buffers_directory() == elsewhere
    with monkeypatch.context() as tiny:
        tiny.setattr(place, "LEAST_MEMORY", 1 << 60)
        assert frame_buffers_directory() == elsewhere
    assert frame_buffers_directory() == memory
    monkeypatch.setattr(place, "MEMORY", memory / "none")
    assert frame_buffers_directory() == elsewhere


@pytest.mark.parametrize("word", ["", "..", "a/b", "a b", "x" * 65, "a\x00", "a-b", "ä"])
def test_a_name_can_not_lead_elsewhere(buffers, word):
    with pytest.raises(InvalidRequest):
        frame_buffer_path(word)
    with pytest.raises(InvalidRequest):
        frame_buffer_path("RUN", word)


def test_every_process_of_a_run_has_a_lane_of_its_own(buffers):
    assert len({frame_buffer_path("RUN", role_of_rank(rank)) for rank in range(12)}) == 12


def test_the_roles_of_a_run_are_found_by_its_id_alone(buffers):
    for run_id, role in [("RUN", "eval"), ("RUN", "train"), ("RUN", "train2"), ("RUN", "train10"), ("RUN2", "train")]:
        frame_buffer_path(run_id, role).touch()
    (buffers / "palaestra-other").touch()
    assert roles_of("RUN") == ["train", "train2", "train10", "eval"]
    assert len(all_frame_buffers()) == 5
