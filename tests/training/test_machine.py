from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from palaestra.training import machine
from palaestra.training.machine import MALLOC_VARIABLES, is_surely_cpu

# Sixteen megabytes at a time, written to and freed, as a minibatch does; what counts are pages got from the kernel.
CHILD = """
import ctypes, json, resource, sys
from palaestra.training.machine import keep_freed_memory
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
kept = keep_freed_memory() if sys.argv[1] == "kept" else None

def minibatch():
    places = [ctypes.c_void_p(libc.malloc(1 << 20)) for _ in range(16)]
    for place in places: ctypes.memset(place, 1, 1 << 20)
    for place in places: libc.free(place)

minibatch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(8): minibatch()
print(json.dumps([kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before]))
"""


def child(way, **variables):
    environment = {name: value for name, value in os.environ.items() if name not in MALLOC_VARIABLES} | variables
    done = subprocess.run([sys.executable, "-c", CHILD, way], env=environment, capture_output=True, check=True)
    return json.loads(done.stdout)


def test_what_was_freed_is_not_got_from_the_kernel_again():
    _, usual = child("usual")
    kept, faults = child("kept")
    if not kept:
        pytest.skip("this C library has no mallopt")
    assert usual > 8 * 16 * 200  # nearly all of 256 pages a megabyte, each time
    assert faults < usual / 20


def test_whoever_told_the_allocator_something_himself_is_left_alone():
    kept, _ = child("kept", MALLOC_TRIM_THRESHOLD_="131072")
    assert kept is False


def test_a_driver_means_that_torch_has_to_be_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "GPU_DEVICE_FILES", (tmp_path / "one", tmp_path / "other"))
    assert is_surely_cpu("auto")
    (tmp_path / "other").touch()
    assert not is_surely_cpu("auto")


def test_what_was_asked_for_by_name_needs_no_look(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "GPU_DEVICE_FILES", (tmp_path,))
    assert is_surely_cpu("cpu")
    monkeypatch.setattr(machine, "GPU_DEVICE_FILES", ())
    assert not is_surely_cpu("cuda")


def test_the_memory_limit_is_the_smallest_of_the_cgroups_above(tmp_path, monkeypatch):
    own = tmp_path / "cgroup"
    own.write_text("4:cpu,memory:/a/b\n0::/c\n")
    v1, v2 = tmp_path / "memory" / "a", tmp_path / "c"
    for folder in (v1 / "b", v2):
        folder.mkdir(parents=True)
    (v1 / "b" / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (v1 / "memory.limit_in_bytes").write_text("5000000\n")
    (v2 / "memory.max").write_text("max\n")
    found = [machine._number_in(file) for file in machine._limit_files(tmp_path, own)]
    assert [number for number in found if number is not None] == [9223372036854771712, 5000000]
    monkeypatch.setattr(machine, "_limit_files", lambda: iter([v1 / "memory.limit_in_bytes"]))
    assert machine.memory_limit() == 5_000_000


def test_without_cgroups_the_limit_is_the_memory_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_limit_files", lambda: iter([tmp_path / "none"]))
    assert machine.memory_limit() > 1 << 28
