from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import palaestra.rendering
from palaestra.rendering import frame_buffer as module
from palaestra.rendering.frame_buffer import (
    UNFINISHED_SECONDS,
    VARIABLE,
    FrameBufferFile,
    FrameBufferNotFound,
    FrameBufferOwner,
    InvalidFrameBuffer,
    InvalidRequest,
    all_frame_buffers,
    frame_buffer_path,
    frame_buffers_directory,
    remove_dead_frame_buffers,
    role_of_rank,
    roles_of,
)
from palaestra.rendering.frame_format import PAGE
from palaestra.runs.processes import is_alive

CAPACITY = 640 * 640 * 3


def test_a_frame_buffer_is_private_and_removed_on_close(buffers):
    with FrameBufferOwner(frame_buffer_path("RUN"), 8, CAPACITY, 1.0) as owner:
        assert stat.S_IMODE(owner.path.stat().st_mode) == 0o600
        assert FrameBufferFile(owner.path).about == owner.about
    assert not owner.path.exists()


def test_a_frame_buffer_without_viewers_takes_a_few_pages(buffers):
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


def test_the_error_for_a_missing_directory_names_the_variable(buffers, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "gone"))
    with pytest.raises(FrameBufferNotFound, match=r"directory for frame buffers does not exist: \S+gone\.") as refused:
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


def test_a_forked_child_does_not_remove_its_parents_frame_buffer(buffers):
    with FrameBufferOwner(frame_buffer_path("RUN"), 1, CAPACITY, 1.0) as owner:
        child = os.fork()
        if child == 0:
            owner.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert owner.path.exists()


@pytest.mark.fault("F3")
def test_closing_an_opened_frame_buffer_does_not_remove_it(buffers):
    with FrameBufferOwner(frame_buffer_path("RUN"), 1, CAPACITY, 1.0) as owner:
        code = (
            "from pathlib import Path; import sys\n"
            "from palaestra.rendering.frame_reader import FrameReader\n"
            "FrameReader(Path(sys.argv[1]))"
        )
        subprocess.run([sys.executable, "-W", "error", "-c", code, owner.path], check=True)
        assert FrameBufferFile(owner.path).about == owner.about


def test_a_frame_buffer_that_was_replaced_is_known_to_be_gone(buffers):
    owner = FrameBufferOwner(frame_buffer_path("RUN"), 1, CAPACITY, 1.0)
    opened = FrameBufferFile(owner.path)
    assert not opened.is_removed
    owner.close()
    with FrameBufferOwner(frame_buffer_path("RUN"), 1, CAPACITY, 2.0):
        assert opened.is_removed


def test_a_file_that_is_not_a_frame_buffer_is_refused_by_name(buffers):
    with pytest.raises(FrameBufferNotFound, match="The frame buffer does not exist"):
        FrameBufferFile(frame_buffer_path("RUN"))
    frame_buffer_path("RUN").write_bytes(b"x" * 5000)
    with pytest.raises(InvalidFrameBuffer, match="begins with"):
        FrameBufferFile(frame_buffer_path("RUN"))
    frame_buffer_path("RUN").write_bytes(b"")
    with pytest.raises(InvalidFrameBuffer, match="only 0 bytes"):
        FrameBufferFile(frame_buffer_path("RUN"))


def test_a_frame_buffer_of_another_size_than_it_says_is_refused(buffers):
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
def test_frame_buffers_of_ended_processes_are_removed_and_others_are_stored(open_frame_buffer, buffers):
    living = open_frame_buffer("LIVING")
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


def test_a_reused_pid_keeps_no_frame_buffer_alive(buffers):
    owner = FrameBufferOwner(frame_buffer_path("RUN"), 1, CAPACITY, started_at=-5.0)
    assert remove_dead_frame_buffers(is_alive) == [owner.path]


def test_an_unfinished_frame_buffer_is_removed_when_it_is_old(buffers):
    frame_buffer_path("RUN").write_bytes(bytes(PAGE))
    assert remove_dead_frame_buffers(is_alive) == []
    long_ago = time.time() - UNFINISHED_SECONDS - 1
    os.utime(frame_buffer_path("RUN"), (long_ago, long_ago))
    assert remove_dead_frame_buffers(is_alive) == [frame_buffer_path("RUN")]
    assert not frame_buffer_path("RUN").exists()


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """What stands for the machine's memory, for somebody who said nothing of buffers."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(module, "MEMORY", tmp_path)
    return tmp_path


def test_frame_buffers_are_in_shared_memory_where_there_is_some(memory):
    assert frame_buffers_directory() == memory
    assert frame_buffer_path("01ABC").parent == memory


def test_shared_memory_that_is_missing_closed_or_of_size_0_is_not_used(memory, monkeypatch):
    elsewhere = Path(tempfile.gettempdir())
    with monkeypatch.context() as closed:
        closed.setattr(module.os, "access", lambda path, mode: False)
        assert frame_buffers_directory() == elsewhere
    with monkeypatch.context() as tiny:
        tiny.setattr(module, "MIN_MEMORY", 1 << 60)
        assert frame_buffers_directory() == elsewhere
    assert frame_buffers_directory() == memory
    monkeypatch.setattr(module, "MEMORY", memory / "none")
    assert frame_buffers_directory() == elsewhere


@pytest.mark.parametrize("word", ["", "..", "a/b", "a b", "x" * 65, "a\x00", "a-b", "ä"])
def test_a_name_can_not_lead_elsewhere(buffers, word):
    with pytest.raises(InvalidRequest):
        frame_buffer_path(word)
    with pytest.raises(InvalidRequest):
        frame_buffer_path("RUN", word)


def test_every_process_of_a_run_has_a_frame_buffer_of_its_own(buffers):
    assert len({frame_buffer_path("RUN", role_of_rank(rank)) for rank in range(12)}) == 12


def test_the_roles_of_a_run_are_found_by_its_id_alone(buffers):
    for run_id, role in [("RUN", "eval"), ("RUN", "train"), ("RUN", "train2"), ("RUN", "train10"), ("RUN2", "train")]:
        frame_buffer_path(run_id, role).touch()
    (buffers / "palaestra-other").touch()
    assert roles_of("RUN") == ["train", "train2", "train10", "eval"]
    assert len(all_frame_buffers()) == 5


FOLDER = Path(palaestra.rendering.__file__).parent
ALONE = """
import importlib, sys
sys.path.insert(0, {folder!r})
import start
from pathlib import Path
start.load_package(Path({folder!r}))
for name in {names!r}:
    importlib.import_module("palaestra_rendering." + name)
allowed = {{*sys.stdlib_module_names, "numpy", "palaestra_rendering", "start", "__main__"}}
print(sorted({{name.partition(".")[0] for name in sys.modules}} - allowed - before))
"""


def test_every_module_loads_by_its_path_with_nothing_but_numpy():
    names = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in {"__init__", "start"})
    code = "import sys; before = {name.partition('.')[0] for name in sys.modules}\n"
    code += ALONE.format(folder=str(FOLDER), names=names)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_no_module_needs_a_python_that_is_newer_than_the_scripts_that_are_watched():
    code = "import ast, sys\nfor path in sys.argv[1:]: ast.parse(open(path).read(), feature_version=(3, 8))"
    subprocess.run([sys.executable, "-c", code, *map(str, FOLDER.glob("*.py"))], check=True)


def test_an_error_has_a_message_and_a_hint():
    error = FrameBufferNotFound("There is none.", "Make one.")
    assert (str(error), error.message, error.hint) == ("There is none. Make one.", "There is none.", "Make one.")
    assert isinstance(error, OSError)
    assert str(InvalidRequest("Too many.")) == "Too many."


def test_the_former_variable_for_the_directory_is_still_read(memory, monkeypatch, tmp_path):
    monkeypatch.setenv("PALAESTRA_LANES_DIR", str(tmp_path / "former"))
    assert frame_buffers_directory() == tmp_path / "former"
    monkeypatch.setenv(VARIABLE, str(tmp_path / "new"))
    assert frame_buffers_directory() == tmp_path / "new"
    monkeypatch.delenv("PALAESTRA_LANES_DIR")
