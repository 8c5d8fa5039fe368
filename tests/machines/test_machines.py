"""The machines themselves: what a fault matrix injects must really be injected."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.machines.machines import (
    REPOSITORY,
    MachineError,
    Source,
    ip,
    reason_no_clock_offset,
    remove_leftovers,
    wait_until,
)

pytestmark = pytest.mark.machines

PROBE = str(Path(__file__).with_name("probe.py"))


def serve(machine, port=7000):
    job = machine.start(["python3", PROBE, "serve", str(port)])
    wait_until(lambda: "listening" in job.out, "the echo server")


def ask(machine, host, size=1, port=7000):
    done = machine.run(["python3", PROBE, "ask", host, str(port), str(size)])
    return float(done.stdout) if done.returncode == 0 else None


def shell(machine, line):
    return machine.run(["sh", "-c", line]).stdout.strip()


def test_machines_reach_each_other_over_both_protocols_and_nothing_else(network):
    head, worker = network.add("head"), network.add("worker")
    serve(head)
    assert ask(worker, head.address) is not None
    assert ask(worker, head.address6) is not None
    assert ask(worker, "head") is not None
    assert shell(worker, "ip route show default") == ""
    assert "br0" not in ip("-o", "link")


def test_host_names_are_in_the_three_situations(network):
    known = network.add("known")
    debian = network.add("debian", host_name="loopback")
    nameless = network.add("nameless", host_name="unresolved")
    assert shell(known, "getent ahostsv4 known").split()[0] == known.address
    assert shell(debian, "getent ahostsv4 debian").split()[0] == "127.0.1.1"
    assert shell(nameless, "getent hosts nameless") == ""
    assert shell(nameless, "hostname") == "nameless"
    assert shell(known, "getent ahostsv4 debian").split()[0] == debian.address


def test_no_disk_is_shared_and_the_code_cannot_be_written(network):
    one, other = network.add("one"), network.add("other")
    for folder in ("~", "/tmp", "/dev/shm", "/var/tmp", "/run"):
        assert one.run(["sh", "-c", f"echo own > {folder}/note"]).returncode == 0
        assert other.run(["sh", "-c", f"cat {folder}/note"]).returncode != 0
    assert (one.home / "note").read_text() == "own\n"
    assert one.run(["touch", str(REPOSITORY / "note")]).returncode != 0


def test_a_killed_machine_falls_silent_and_its_processes_are_gone(network):
    head, worker = network.add("head"), network.add("worker")
    serve(head)
    job = worker.start(["sleep", "1000"])
    (sleeper,) = wait_for(lambda: worker.processes("sleep 1000"))
    worker.kill()
    assert job.wait() == -signal.SIGKILL
    assert not sleeper.is_running()
    assert head.processes(PROBE)


def test_a_machine_that_was_rebooted_has_its_disk_and_address_and_an_empty_tmp(network):
    head, worker = network.add("head"), network.add("worker")
    serve(head)
    shell(worker, "echo disk > ~/note; echo memory > /tmp/note")
    worker.reboot()
    assert shell(worker, "cat ~/note; ls /tmp") == "disk"
    assert ask(worker, head.address) is not None


@pytest.mark.parametrize("unplug", [False, True])
def test_a_cut_link_heals(network, unplug):
    head, worker = network.add("head"), network.add("worker")
    serve(head)
    worker.link_down(unplug=unplug)
    assert ask(worker, head.address) is None
    worker.link_up()
    assert ask(worker, head.address) is not None
    assert ask(worker, head.address6) is not None


def test_a_delay_counts_in_both_directions_and_large_messages_pass(network):
    head, worker = network.add("head"), network.add("worker")
    serve(head)
    assert ask(worker, head.address) < 0.1
    worker.delay(100)
    assert 0.2 <= ask(worker, head.address) < 0.5
    assert ask(worker, head.address, size=1_000_000) >= 0.2
    worker.delay(0)
    wait_until(lambda: ask(worker, head.address) < 0.1, "a quick answer")  # frames under way were lost with the cable


def test_loss_loses_packets_and_tcp_repairs_it(network):
    head, worker = network.add("head"), network.add("worker")
    serve(head)
    worker.loss(5)
    assert ask(worker, head.address, size=200_000) is not None
    worker.loss(0)
    resent = int(shell(worker, "grep ^Tcp: /proc/net/snmp | tail -1").split()[12])
    assert resent > 0
    worker.loss(1)
    worker.link_down()
    assert ask(worker, head.address) is None
    worker.link_up()
    assert ask(worker, head.address) is not None


def test_one_machine_can_have_other_code(network, tmp_path):
    edited = network.source.copy(tmp_path / "edited", {"__init__.py": lambda text: text + "\nOTHER = 1\n"})
    same, other = network.add("same"), network.add("other", code=edited)
    program = ["python", "-c", "import palaestra; print(palaestra.__file__, hasattr(palaestra, 'OTHER'))"]
    file = network.source.package / "__init__.py"
    assert same.run(program).stdout.split() == [str(file), "False"]
    assert other.run(program).stdout.split() == [str(file), "True"]


def test_a_copy_whose_edit_changes_nothing_is_refused(tmp_path):
    with pytest.raises(MachineError, match=r"the edit of __init__\.py changes nothing"):
        Source(REPOSITORY).copy(tmp_path / "edited", {"__init__.py": lambda text: text})


def test_a_small_disk_is_full_at_some_point(network):
    small = network.add("small", disk_megabytes=5)
    small.fill_disk()
    done = small.run(["cp", "/etc/passwd", "/home/machine/more"])
    assert "No space left" in done.stderr


def test_a_clock_can_be_an_hour_off(network):
    if reason := reason_no_clock_offset():
        pytest.skip(reason)
    machine = network.add("late")
    program = ["python", "-c", "import time; time.sleep(0.01); print(time.time(), time.monotonic())"]
    before, monotonic = map(float, machine.run(program).stdout.split())
    machine.set_clock_offset(3600)
    after, monotonic_after = map(float, machine.run(program).stdout.split())
    assert 3600 <= after - before < 3660
    assert 0 <= monotonic_after - monotonic < 60


def test_what_a_killed_test_left_is_removed(machines_available, tmp_path):
    """The test process dies with kill -9: its machines die with it, its namespaces are removed by the next."""
    program = (
        "import sys, time; from pathlib import Path; from tests.machines.machines import Network\n"
        "with Network(Path(sys.argv[1])) as network:\n"
        "    network.add('orphan').start(['sleep', '1000'])\n"
        "    print(network.machines[0].pid, flush=True)\n"
        "    time.sleep(1000)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    with process:
        pid = int(process.stdout.readline())
        process.kill()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the machine")
    removed = remove_leftovers()
    assert {f"palaestra-{process.pid}-1-switch", f"palaestra-{process.pid}-1-orphan"} <= set(removed)


def wait_for(question):
    wait_until(question, "an answer")
    return question()
