from __future__ import annotations

import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from palaestra.cluster import node
from palaestra.cluster.address import Address
from palaestra.cluster.connection import open_ray
from palaestra.cluster.node import ClusterLeft, NodeOptions, read_node_options
from palaestra.core.errors import RunFailed, UsageError

NOTHING = {"head": False, "address": "", "host": "", "port": 6379, "cpus": None, "gpus": None}


def order_of(**given):
    return read_node_options(**{**NOTHING, **given})


def test_a_head_stays_on_this_machine_unless_it_is_reported_otherwise():
    assert order_of(head=True) == NodeOptions(Address("127.0.0.1", 6379), is_head=True)
    assert order_of(head=True, host="10.0.0.5", port=7000).address == Address("10.0.0.5", 7000)
    assert order_of(head=True, host="::1").address == Address("::1", 6379)


def test_joining_takes_the_address_of_the_head():
    assert order_of(address="head:6379", cpus=0) == NodeOptions(Address("head", 6379), is_head=False, cpus=0)


@pytest.mark.parametrize(
    "given",
    [{}, {"head": True, "address": "head:6379"}, {"address": "ray://head:1"}, {"head": True, "host": "http://x"}],
)
def test_neither_both_and_odd_addresses_are_refused(given):
    with pytest.raises(UsageError):
        order_of(**given)


def test_the_words_for_ray_say_where_how_much_and_stay_in_the_foreground():
    folder = Path("/somewhere")
    head = order_of(head=True, cpus=2, gpus=0).arguments(folder)
    assert {"--head", "--port=6379", "--node-ip-address=127.0.0.1", "--num-cpus=2", "--num-gpus=0"} <= set(head)
    joined = order_of(address="127.0.0.1:6379").arguments(folder)
    assert "--address=127.0.0.1:6379" in joined
    assert not any(word.startswith(("--head", "--num-cpus")) for word in joined)
    for arguments in (head, joined):
        assert {"--block", "--temp-dir=/somewhere", "--disable-usage-stats"} <= set(arguments)


def test_a_worker_is_known_by_its_address_on_the_route_to_the_head_unless_it_is_given_one():
    routed = order_of(address="127.0.0.1:6379")
    assert (routed.host_of_this_machine(), "--node-ip-address=127.0.0.1" in routed.arguments(Path("/x"))) == (
        "127.0.0.1",
        True,
    )
    given = order_of(address="127.0.0.1:6379", host="127.0.0.3")
    assert "--node-ip-address=127.0.0.3" in given.arguments(Path("/x"))


@pytest.mark.parametrize(("host", "problem"), [("192.0.2.1", "not an address of this machine"), ("eth0", "not an IP")])
def test_a_worker_cannot_bind_what_is_not_its_own(host, problem):
    with pytest.raises(UsageError, match=problem):
        order_of(address="127.0.0.1:6379", host=host)


def test_the_module_is_rays_own_command():
    arguments = [sys.executable, "-m", "palaestra.cluster.node", "--help"]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert "--block" in process.stdout.read()
        assert process.wait(60) == 0


def test_the_module_ends_when_nobody_holds_its_standard_input():
    arguments = [sys.executable, "-m", "palaestra.cluster.node", "--help"]
    with subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        assert process.wait(60) == -signal.SIGTERM


@pytest.fixture
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def free_port():
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def head_order(port):
    return NodeOptions(Address("127.0.0.1", port), is_head=True, cpus=2)


def test_a_head_makes_a_token_once_and_keeps_it(home):
    order = head_order(free_port())
    assert node.admit(order) == {"RAY_AUTH_MODE": "token"}
    token = home / ".ray" / "auth_token"
    first = token.read_text()
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    node.admit(order)
    assert token.read_text() == first


def test_a_head_without_authentication_is_refused_and_leaves_nothing(home, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(UsageError, match="RAY_AUTH_MODE=disabled"):
        node.admit(head_order(free_port()))
    assert not (home / ".ray").exists()


def test_a_port_that_is_taken_is_reported_at_once(home):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"127.0.0.1:{port}"):
            node.admit(head_order(port))


def test_joining_a_strange_machine_without_a_token_is_refused(home):
    with pytest.raises(UsageError, match="no token"):
        node.admit(NodeOptions(Address("192.0.2.1", 6379), is_head=False))


def test_joining_nobody_is_one_clear_line(home):
    with pytest.raises(RunFailed, match="No cluster can be reached"):
        node.admit(NodeOptions(Address("127.0.0.1", free_port()), is_head=False))


class StartedNode:
    """In the place of Ray on this machine: up at once, and ends when the test says so."""

    def __init__(self, ends):
        self._ends = ends

    def wait(self):
        return self._ends()


@pytest.fixture
def fast(monkeypatch):
    monkeypatch.setattr(node, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(node, "LONGEST_PAUSE", 0.02)


def worker_order(port=1):
    return NodeOptions(Address("127.0.0.1", port), is_head=False)


def serve_with(monkeypatch, admissions, wait=0.0, order=None):
    """`admissions`: for each attempt to join None, or the error of it; after the last comes a signal."""
    attempts, ups, notes = [], [], []

    def admit(_order):
        attempts.append(1)
        if len(attempts) > len(admissions):
            raise ClusterLeft(signal.SIGTERM)
        error = admissions[len(attempts) - 1]
        if error is not None:
            raise error
        return {}

    @contextmanager
    def started(_order, _variables):
        yield StartedNode(lambda: 1)

    monkeypatch.setattr(node, "admit", admit)
    monkeypatch.setattr(node, "_started", started)
    try:
        node.serve(order or worker_order(), lambda: ups.append(1), notes.append, wait)
    except (ClusterLeft, RunFailed, UsageError) as end:
        return len(attempts), len(ups), notes, end


def test_a_worker_whose_cluster_is_lost_joins_again_and_says_so_once(monkeypatch, fast):
    away = RunFailed("No cluster can be reached.")
    attempts, ups, notes, end = serve_with(monkeypatch, [None, away, away, away, None])
    assert (attempts, ups, type(end)) == (6, 2, ClusterLeft)
    lost = "Lost the cluster at 127.0.0.1:1: its head cannot be reached (Connection refused)."
    assert notes == [f"{lost} Joining again as soon as it answers."] * 2


def test_a_head_that_is_not_there_at_first_is_an_error_unless_it_is_waited_for(monkeypatch, fast):
    away = RunFailed("No cluster can be reached.")
    assert serve_with(monkeypatch, [away])[3] is away
    assert serve_with(monkeypatch, [away, away, None], wait=60.0)[1] == 1


def test_a_worker_that_is_refused_when_it_comes_back_ends_with_the_reason(monkeypatch, fast):
    refused = UsageError("The cluster does not accept the token.")
    assert serve_with(monkeypatch, [None, refused])[3] is refused


def test_a_head_that_ends_by_itself_is_an_error(monkeypatch, fast):
    _, _, notes, end = serve_with(monkeypatch, [None], order=head_order(1))
    assert (type(end), notes) == (RunFailed, [])


def started_worker(port):
    arguments = [sys.executable, "-m", "palaestra", "worker", "--head", "--cpus", "2", "--port", str(port)]
    worker = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return worker, worker.stdout.readline()


def family(pid):
    return psutil.Process(pid).children(recursive=True)


def wait_until_gone(processes, seconds):
    deadline = time.monotonic() + seconds
    while alive := [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.1)


@pytest.mark.full
@pytest.mark.slow
def test_a_worker_is_one_line_a_cluster_to_use_and_nothing_after_a_signal(home, monkeypatch):
    port = free_port()
    worker, line = started_worker(port)
    try:
        assert f"cluster.address=127.0.0.1:{port}" in line
        started = family(worker.pid)
        assert any("raylet" in process.name() for process in started)
        folder = next(word for word in started[0].cmdline() if word.startswith("--temp-dir=")).partition("=")[2]
        assert stat.S_IMODE(Path(folder).parent.stat().st_mode) == 0o700
        with open_ray(f"127.0.0.1:{port}") as session:
            assert not session.is_embedded
            assert session.cpus == 2
        with pytest.raises(UsageError, match="does not accept the token"):
            monkeypatch.setenv("RAY_AUTH_TOKEN", "wrong")
            with open_ray(f"127.0.0.1:{port}"):
                pytest.fail("a wrong token was enough")
        worker.send_signal(signal.SIGTERM)
        rest, reports = worker.communicate(timeout=40)
    finally:
        worker.kill()
    assert worker.returncode == 143
    assert rest == ""
    assert reports.count("\n") == 1
    wait_until_gone(started, 10)
    assert not Path(folder).exists()


@pytest.mark.full
@pytest.mark.slow
def test_a_worker_that_is_killed_takes_its_ray_with_it(home):
    worker, _ = started_worker(free_port())
    started = family(worker.pid)
    worker.kill()
    worker.communicate()
    wait_until_gone(started, 20)


@pytest.mark.full
@pytest.mark.slow
def test_a_worker_comes_back_to_a_head_that_was_killed_and_started_again(home):
    port = free_port()
    arguments = [sys.executable, "-m", "palaestra", "worker", "--address", f"127.0.0.1:{port}", "--cpus", "1"]
    head, _ = started_worker(port)
    joined = subprocess.Popen(
        [*arguments, "--host", "127.0.0.3"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert "belongs to the cluster" in joined.stdout.readline()
        kill_family(head)
        assert f"Lost the cluster at 127.0.0.1:{port}" in joined.stderr.readline()
        head, _ = started_worker(port)
        assert "belongs to the cluster" in joined.stdout.readline()
        joined.send_signal(signal.SIGINT)
        _, rest = joined.communicate(timeout=40)
    finally:
        kill_family(joined)
        kill_family(head)
    assert joined.returncode == 130
    assert rest.count("\n") == 1, rest


def kill_family(process):
    """As a machine that is switched off."""
    if process.poll() is None:
        for one in [*family(process.pid), psutil.Process(process.pid)]:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        process.communicate()
