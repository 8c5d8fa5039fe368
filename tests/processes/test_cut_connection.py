"""A sample of the faults between machines that needs no root: the network between two ranks goes silent.

The whole matrix needs several namespaces and root: `make test-machines`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from palaestra.runs.journal import read_journal
from palaestra.runs.store import RunStore

pytestmark = pytest.mark.slow

PEER_TIMEOUT = 5
LIMIT = 30.0  # far more than the time-out, on a machine that is busy with other things
OWN_NETWORK = ["unshare", "--user", "--map-root-user", "--net", "--fork", "--kill-child"]
SETTINGS = [
    "train",
    "cartpole",
    "run=cut",
    "total_steps=1e9",
    "ppo.env_count=2",
    "ppo.horizon=16",
    "ppo.minibatch_size=16",
    "checkpoints.save_interval=1",
    "distributed.backend=gloo",
    "loggers.tensorboard=false",
    f"distributed.peer_timeout_seconds={PEER_TIMEOUT}",
    "--quiet",
]


@pytest.fixture(scope="module")
def own_network():
    """The command that gives a process a network of its own."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("needs unshare (util-linux) and ip (iproute2)")
    tried = subprocess.run([*OWN_NETWORK, "ip", "link", "set", "lo", "up"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"user namespaces are forbidden here: {tried.stderr.strip()}")
    return OWN_NETWORK


def saved(runs):
    run = RunStore(runs).named("cut") if runs.exists() else None
    if run is None or not run.journal_file.exists():
        return 0
    return sum(entry.event == "checkpoint.saved" for entry in read_journal(run.journal_file))


def test_both_ranks_end_soon_after_the_network_between_them_went_silent(palaestra, wait_until, own_network):
    script = Path(__file__).with_name("cut_loopback.py")
    process = subprocess.Popen(
        [*own_network, sys.executable, str(script), *SETTINGS],
        cwd=palaestra.home,
        env=palaestra.variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            wait_until(lambda: saved(palaestra.runs) >= 3 or process.poll() is not None, "three checkpoints")
            out, _ = process.communicate("cut\n", timeout=90)
        finally:
            process.kill()
    result = json.loads(out)
    assert all(result["codes"]), result
    assert result["seconds"] < LIMIT, result
    assert all("rank" in message.lower() for message in result["messages"]), result
