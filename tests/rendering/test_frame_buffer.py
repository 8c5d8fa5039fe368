import errno
import os
import resource
import stat
import subprocess
import sys
import time

import pytest

from palaestra.rendering.buffer_paths import VARIABLE, frame_buffer_path
from palaestra.rendering.errors import FrameBufferNotFound, InvalidFrameBuffer
from palaestra.rendering.frame_buffer import (
    UNFINISHED_SECONDS,
    FrameBufferFile,
    FrameBufferOwner,
    remove_dead_frame_buffers,
)
from palaestra.rendering.layout import PAGE
from palaestra.runs.processes import is_alive

CAPACITY = 640 * 640 * 3


def test_a_lane_is_its_owners_alone_and_gone_when_it_closes(buffers):
    with FrameBufferOwner(frame_buffer_path("RUN"), 8, CAPACITY, 1.0) as owner:
        assert stat.S_IMODE(owner.path.stat().st_mode) == 0o600
        assert FrameBufferFile(owner.path).about == owner.about
    assert not owner.path.exists()


def test_a_lane_that_nobody_watches_takes_a_few_pages(buffers):
    with FrameBufferOwner(frame_buffer_path("RUN"), 8, CAPACITY, 1.0) as owner:
        found = owner.path.stat()
        assert found.st_size > 16 * CAPACITY
        assert owner.about.head_bytes == 2 * PAGE
        assert found.st_blocks * 512 <= 4 * PAGE


def test_the_head_is_reserved_so_that_writing_it_cannot_fail(buffers):
    with FrameBufferOwner(frame_buffer_path("RUN"), 1000, CAPACITY, 1.0) as owner:
        assert owner.path.stat().st_blocks * 512 >= owner.about.head_bytes


def test_a_name_that_is_taken_is_not_taken_over(buffers):
    with FrameBufferOwner(frame_buffer_path("RUN"), 1, CAPACITY, 1.0) as owner:
        with pytest.raises(FileExistsError):
            FrameBufferOwner(frame_buffer_path("RUN"), 1, CAPACITY, 1.0)
        assert owner.path.exists()


def test_a_folder_that_is_gone_is_named_with_the_setting_that_named_it(buffers, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "gone"))
    with pytest.raises(FrameBufferNotFound, match=r"gone to make frame buffers in") as refused:
        FrameBufferOwner(frame_buffer_path("RUN"), 1, CAPACITY, 1.0)
    assert VARIABLE in refused.value.hint


def test_a_link_in_its_place_is_not_followed(buffers, tmp_path):
    target = tmp_path / "precious"
    target.write_text("keep")
    frame_buffer_path("RUN").symlink_to(target)
    with pytest.raises(OSError):
        FrameBufferOwner(frame_buffer_path("RUN"), 1, CAPACITY, 1.0)
    with pytest.raises(InvalidFrameBuffer):
        FrameBufferFile(frame_buffer_path("RUN"))
    assert target.read_text() == "keep"


@pytest.mark.fault("F1")
def test_without_room_nothing_is_left_behind(buffers):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (PAGE, hard))
    try:
        with pytest.raises(OSError) as refusal:
            FrameBufferOwner(frame_buffer_path("RUN"), 8, CAPACITY, 1.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert refusal.value.errno == errno.ENOSPC
    assert not frame_buffer_path("RUN").exists()


def test_a_forked_child_does_not_remove_its_parents_lane(buffers):
    with FrameBufferOwner(frame_buffer_path("RUN"), 1, CAPACITY, 1.0) as owner:
        child = os.fork()
        if child == 0:
            owner.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert owner.path.exists()


@pytest.mark.fault("F3")
def test_whoever_opens_a_lane_can_not_remove_it_by_leaving(buffers):
    with FrameBufferOwner(frame_buffer_path("RUN"), 1, CAPACITY, 1.0) as owner:
        code = (
            "from pathlib import Path; import sys\n"
            "from palaestra.rendering.frame_reader import FrameReader\n"
            "FrameReader(Path(sys.argv[1]))"
        )
        subprocess.run([sys.executable, "-W", "error", "-c", code, owner.path], check=True)
        assert FrameBufferFile(owner.path).about == owner.about


def test_a_lane_that_was_replaced_is_known_to_be_gone(buffers):
    owner = FrameBufferOwner(frame_buffer_path("RUN"), 1, CAPACITY, 1.0)
    opened = FrameBufferFile(owner.path)
    assert not opened.is_removed
    owner.close()
    with FrameBufferOwner(frame_buffer_path("RUN"), 1, CAPACITY, 2.0):
        assert opened.is_removed


def test_what_is_no_lane_is_refused_by_name(buffers):
    with pytest.raises(FrameBufferNotFound, match="There is no frame buffer"):
        FrameBufferFile(frame_buffer_path("RUN"))
    frame_buffer_path("RUN").write_bytes(b"x" * 5000)
    with pytest.raises(InvalidFrameBuffer, match="begins with"):
        FrameBufferFile(frame_buffer_path("RUN"))
    frame_buffer_path("RUN").write_bytes(b"")
    with pytest.raises(InvalidFrameBuffer, match="only 0 bytes"):
        FrameBufferFile(frame_buffer_path("RUN"))


def test_a_lane_of_another_size_than_it_says_is_refused(buffers):
    with FrameBufferOwner(frame_buffer_path("RUN"), 4, CAPACITY, 1.0) as owner:
        os.truncate(owner.path, owner.about.file_bytes - 1)
        with pytest.raises(InvalidFrameBuffer, match=f"has {owner.about.file_bytes - 1} bytes"):
            FrameBufferFile(owner.path)


def test_a_pipe_or_a_directory_in_its_place_is_refused_without_waiting(buffers):
    os.mkfifo(frame_buffer_path("PIPE"))
    with pytest.raises(InvalidFrameBuffer):
        FrameBufferFile(frame_buffer_path("PIPE"))
    frame_buffer_path("DIRECTORY").mkdir()
    with pytest.raises(InvalidFrameBuffer):
        FrameBufferFile(frame_buffer_path("DIRECTORY"))
    assert remove_dead_frame_buffers(is_alive) == []


@pytest.mark.fault("F2")
def test_lanes_of_the_dead_are_swept_and_those_of_the_living_are_not(open_lane, buffers):
    living = open_lane("LIVING")
    dead = subprocess.run(
        [sys.executable, "-c", DIE_WITH_A_LANE, frame_buffer_path("DEAD")], capture_output=True, text=True
    )
    assert dead.returncode == -9, dead.stderr
    assert frame_buffer_path("DEAD").exists()
    (buffers / "palaestra-somebody").write_text("not a frame buffer")
    assert remove_dead_frame_buffers(is_alive) == [frame_buffer_path("DEAD")]
    assert living.path.exists()
    assert not frame_buffer_path("DEAD").exists()
    assert (buffers / "palaestra-somebody").exists()


DIE_WITH_A_LANE = """
import os, signal, sys
from pathlib import Path
from palaestra.rendering.frame_buffer import FrameBufferOwner
from palaestra.runs.processes import process_started_at
FrameBufferOwner(Path(sys.argv[1]), 2, 1000, process_started_at(os.getpid()))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_stranger_with_the_pid_of_the_dead_keeps_no_lane_alive(buffers):
    owner = FrameBufferOwner(frame_buffer_path("RUN"), 1, CAPACITY, started_at=-5.0)
    assert remove_dead_frame_buffers(is_alive) == [owner.path]


def test_a_lane_that_was_never_finished_is_swept_when_it_is_old(buffers):
    frame_buffer_path("RUN").write_bytes(bytes(PAGE))
    assert remove_dead_frame_buffers(is_alive) == []
    long_ago = time.time() - UNFINISHED_SECONDS - 1
    os.utime(frame_buffer_path("RUN"), (long_ago, long_ago))
    assert remove_dead_frame_buffers(is_alive) == [frame_buffer_path("RUN")]
    assert not frame_buffer_path("RUN").exists()
