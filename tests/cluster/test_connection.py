import os
import signal
import stat
from pathlib import Path

import psutil
import pytest

from palaestra.cluster import connection
from palaestra.cluster.connection import open_ray
from palaestra.cluster.nodes import find_excluded_nodes, query_each
from palaestra.core.errors import UsageError


def node_pid():
    """Runs on a node."""
    return os.getpid()


def listening_outside() -> list[str]:
    """Addresses other than the loopback at which a process of ours or a child of it listens."""
    ours = psutil.Process()
    return [
        f"{process.name()} {address.laddr.ip}"
        for process in [ours, *ours.children(recursive=True)]
        for address in process.net_connections(kind="inet")
        if address.status == psutil.CONN_LISTEN and not address.laddr.ip.removeprefix("::ffff:").startswith("127.")
    ]


@pytest.mark.slow
def test_an_embedded_session_is_private_and_leaves_nothing(monkeypatch, capfd):
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    handler = signal.getsignal(signal.SIGTERM)
    before = set(psutil.pids())
    with open_ray(cpus=3) as session:
        assert session.is_embedded
        assert session.cpus == 3
        assert session.address.startswith("127.0.0.1:")
        assert signal.getsignal(signal.SIGTERM) is handler
        assert listening_outside() == []
        assert len(os.environ["RAY_AUTH_TOKEN"]) == 64
        folder = Path(session.ray._private.worker._global_node.get_session_dir_path()).parents[1]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert len(query_each(session.ray, node_pid)) == 1
        assert find_excluded_nodes(session.ray) == ()
        with open_ray("10.9.8.7:1") as inner:  # whoever is inside uses what is open
            assert inner.address == session.address
        assert session.ray.is_initialized()
    assert not session.ray.is_initialized()
    assert not folder.exists()
    assert "RAY_AUTH_TOKEN" not in os.environ
    ours = {child.pid for child in psutil.Process().children(recursive=True)}
    assert not ours - before
    assert capfd.readouterr().out == ""


@pytest.mark.fault("W13")
def test_a_remote_address_without_a_token_is_refused_before_any_connection(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(connection, "probe", lambda address, access: pytest.fail("it was asked"))
    with pytest.raises(UsageError, match="no token"), open_ray("192.0.2.1:6379"):
        pytest.fail("it was opened")
