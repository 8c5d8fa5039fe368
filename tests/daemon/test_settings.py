import os
from pathlib import Path

from palaestra.daemon.settings import DaemonSettings, machine_resources


def test_the_machine_is_what_this_process_may_use():
    found = machine_resources()
    assert found.cpus == len(os.sched_getaffinity(0))
    total_kb = int(Path("/proc/meminfo").read_text().split()[1])
    assert found.memory_mb == total_kb // 1024


def test_the_defaults_notice_a_dead_worker_within_two_seconds():
    assert DaemonSettings().tick_seconds + 0.5 < 2.0  # the keeper lingers half a second for what was left behind
