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
