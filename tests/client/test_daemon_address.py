import os
import stat

import pytest

from palaestra.client.daemon_address import (
    HOME,
    DaemonAddress,
    address_file,
    find_daemon,
    read_daemon_address,
    remove_daemon_address,
    token_file,
    write_daemon_address,
)
from palaestra.core.errors import NotFound
from palaestra.daemon.settings import DaemonDirectory


@pytest.fixture
def root(tmp_path):
    (tmp_path / HOME).mkdir()
    return tmp_path


def test_client_and_daemon_use_the_same_directory(root):
    assert DaemonDirectory(root).path == token_file(root).parent == address_file(root).parent


def test_a_running_daemon_is_found(root):
    daemon_address = write_daemon_address(root, "http://127.0.0.1:7878")
    assert find_daemon(root) == daemon_address == read_daemon_address(root)
    assert daemon_address.pid == os.getpid()
    assert stat.S_IMODE(address_file(root).stat().st_mode) == 0o600


def test_a_dead_daemon_is_not_found_and_the_error_says_how_to_start_one(root):
    write_daemon_address(root, "http://127.0.0.1:7878")
    text = address_file(root).read_text()
    address_file(root).write_text(text.replace('"pid_started_at": ', '"pid_started_at": 1'))
    with pytest.raises(NotFound, match="No daemon is running") as caught:
        find_daemon(root)
    assert "palaestra serve" in caught.value.hint


@pytest.mark.parametrize("content", [None, "", "{}", "[]", '{"url": 1, "pid": "x"}', "x" * 100_000])
def test_an_unreadable_address_file_is_none(root, content):
    if content is not None:
        address_file(root).write_text(content)
    assert read_daemon_address(root) is None
    with pytest.raises(NotFound):
        find_daemon(root)


def test_a_daemon_removes_only_its_own_address(root):
    daemon_address = write_daemon_address(root, "http://127.0.0.1:7878")
    remove_daemon_address(root, DaemonAddress("http://127.0.0.1:1", 1, 1.0))
    assert read_daemon_address(root) == daemon_address
    remove_daemon_address(root, daemon_address)
    remove_daemon_address(root, daemon_address)
    assert read_daemon_address(root) is None
