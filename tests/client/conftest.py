"""A daemon in a process of its own, for clients to talk to."""

import json
import os
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The runs directory of a daemon that lives as long as the tests of a file."""
    root = tmp_path_factory.mktemp("served") / "runs"
    environment = {**os.environ, "PALAESTRA_RUNS_DIR": str(root)}
    command = [sys.executable, "-m", "palaestra", "serve", "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    text = b""
    while not text.rstrip().endswith(b"}"):
        piece = process.stdout.read1(4096)
        assert piece
        text += piece
    json.loads(text)
    yield root
    process.terminate()
    process.communicate()
