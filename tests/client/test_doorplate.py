import os
import stat

import pytest

from palaestra.client.doorplate import (
    HOME,
    Doorplate,
    doorplate_file,
    find_daemon,
    hang_doorplate,
    read_doorplate,
    take_down,
    token_file,
)
from palaestra.core.errors import NotFound
from palaestra.daemon.home import DaemonHome


@pytest.fixture
def root(tmp_path):
    (tmp_path / HOME).mkdir()
    return tmp_path


def test_client_and_daemon_mean_the_same_place(root):
    assert DaemonHome(root).path == token_file(root).parent == doorplate_file(root).parent


def test_a_daemon_that_lives_is_found(root):
    plate = hang_doorplate(root, "http://127.0.0.1:7878")
    assert find_daemon(root) == plate == read_doorplate(root)
    assert plate.pid == os.getpid()
    assert stat.S_IMODE(doorplate_file(root).stat().st_mode) == 0o600


def test_a_daemon_that_is_gone_is_not_and_the_way_to_start_one_is_said(root):
    hang_doorplate(root, "http://127.0.0.1:7878")
    text = doorplate_file(root).read_text()
    doorplate_file(root).write_text(text.replace('"pid_started_at": ', '"pid_started_at": 1'))
    with pytest.raises(NotFound, match="No daemon is running") as caught:
        find_daemon(root)
    assert "palaestra serve" in caught.value.hint


@pytest.mark.parametrize("content", [None, "", "{}", "[]", '{"url": 1, "pid": "x"}', "x" * 100_000])
def test_a_plate_that_cannot_be_read_is_none(root, content):
    if content is not None:
        doorplate_file(root).write_text(content)
    assert read_doorplate(root) is None
    with pytest.raises(NotFound):
        find_daemon(root)


def test_only_the_own_plate_is_taken_down(root):
    plate = hang_doorplate(root, "http://127.0.0.1:7878")
    take_down(root, Doorplate("http://127.0.0.1:1", 1, 1.0))
    assert read_doorplate(root) == plate
    take_down(root, plate)
    take_down(root, plate)
    assert read_doorplate(root) is None
