from __future__ import annotations

import json
import socket
import subprocess
import sys
import time

import pytest


@pytest.mark.slow
def test_the_process_serves_on_a_private_socket_and_ends_with_its_input(tmp_path):
    (tmp_path / "logs").mkdir()
    address = tmp_path / "s"
    child = subprocess.Popen(
        [sys.executable, "-m", "palaestra.web.tensorboard.child"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    reports = {"socket": str(address), "logs": str(tmp_path / "logs"), "prefix": "/tensorboard/KEY"}
    child.stdin.write(json.dumps(reports).encode() + b"\n")
    child.stdin.flush()
    deadline = time.monotonic() + 60
    while not address.exists() and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert address.stat().st_mode & 0o077 == 0
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(address))
        connection.sendall(b"GET /tensorboard/KEY/data/runs HTTP/1.0\r\n\r\n")
        reply = b""
        while piece := connection.recv(65536):
            reply += piece
    assert reply.startswith(b"HTTP/1.0 200")
    assert reply.endswith(b"[]")
    child.stdin.close()
    assert child.wait(60) == 0
