"""One thread, and several processes for one test: forked, joined to one group, each giving one JSON value back."""

from __future__ import annotations

import json
import os
import socket
import traceback
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

from palaestra.config.distributed import DistributedConfig
from palaestra.training.distributed.joining import open_group
from palaestra.training.distributed.rank_info import MEMORY, open_memory_file


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """As training itself by default: with networks this small, threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def run_rank(work, rank, count, port, settings, file, memory):
    code = 1
    try:
        os.environ.pop(MEMORY, None)
        if memory is not None:
            os.environ[MEMORY] = str(memory)
        os.environ.update(
            RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
        )
        with open_group(DistributedConfig(**settings)) as group:
            answer = work(group)
        file.write_text(json.dumps(answer))
        code = 0
    except BaseException as error:  # noqa: BLE001  the test reads it
        traceback.print_exc()
        file.write_text(json.dumps({"error": f"{type(error).__name__}: {error}"}))
    finally:
        os._exit(code)


def run_together(work, count=2, timeout_seconds=30.0, *, shares_memory=False, **settings):
    """`work(group)` in `count` processes; their answers in the order of ranks. `settings`: of DistributedConfig."""
    settings["timeout_seconds"] = timeout_seconds
    memory = open_memory_file() if shares_memory else None
    pids = []
    with TemporaryDirectory() as home, socket.socket() as held:
        # Kept until the end: a port that is only known to be free may become the local end of somebody's connection.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as rank 0 does: both may have it until one listens
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        files = [Path(home) / str(rank) for rank in range(count)]
        for rank, file in enumerate(files):
            pid = os.fork()
            if not pid:
                run_rank(work, rank, count, port, settings, file, memory)
            pids.append(pid)
        for pid in pids:
            os.waitpid(pid, 0)
        if memory is not None:
            os.close(memory)
        return [json.loads(file.read_text()) if file.exists() else None for file in files]


@pytest.fixture
def together():
    """Ranks that meet as under torchrun."""
    return run_together


@pytest.fixture
def on_one_machine():
    """Ranks that whoever started them gave common memory, as `--nproc` does."""
    return partial(run_together, shares_memory=True)
