"""The faults of a soak test. One is drawn every few seconds, determined by the seed."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

import psutil
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect as open_socket

from palaestra.checkpoints.files import epoch_of_data
from palaestra.client.daemon_address import read_daemon_address, token_file
from palaestra.daemon.monitor_handle import read_monitor_record
from palaestra.daemon.process_tree import send_signal
from tools.reliability.soak_services import RUNS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tools.reliability.soak_services import SoakServices

FROZEN_SECONDS = 2.0


def kill_daemon(services: SoakServices, _chance: random.Random) -> None:
    services.daemon.kill()
    services.daemon.wait()


def freeze_daemon(services: SoakServices, _chance: random.Random) -> None:
    services.daemon.send_signal(signal.SIGSTOP)
    time.sleep(FROZEN_SECONDS)
    services.daemon.send_signal(signal.SIGCONT)


def kill_trainer(services: SoakServices, rng: random.Random) -> None:
    note = read_monitor_record(services.directory(rng.choice(RUNS)))
    if note is not None and note.worker is not None:
        send_signal(note.worker, signal.SIGKILL)


def kill_monitor(services: SoakServices, rng: random.Random) -> None:
    note = read_monitor_record(services.directory(rng.choice(RUNS)))
    if note is not None:
        send_signal(note.monitor, signal.SIGKILL)


def stop_trainer(services: SoakServices, rng: random.Random) -> None:
    name = rng.choice(RUNS)
    services.ask(lambda client: client.stop(name))


def kill_evaluation(services: SoakServices, _chance: random.Random) -> None:
    if services.evaluation is not None:
        services.evaluation.kill()
        services.evaluation.wait()


def kill_tracker(services: SoakServices, _chance: random.Random) -> None:
    """W&B's own processes of the run that is tracked; the training must not notice."""
    for member in services.members(RUNS[0]):
        with contextlib.suppress(psutil.Error):
            if "wandb" in " ".join(psutil.Process(member.pid).cmdline()):
                send_signal(member, signal.SIGKILL)


def damage_checkpoint(services: SoakServices, rng: random.Random) -> None:
    """Cut the newest weights, then kill: the one before must be gone on from."""
    name = rng.choice(RUNS)
    newest = services.newest_weights(name)
    epoch = epoch_of_data(newest.name) if newest is not None else None
    note = read_monitor_record(services.directory(name))
    if newest is not None and epoch is not None and note is not None and note.worker is not None:
        send_signal(note.worker, signal.SIGKILL)
        with contextlib.suppress(FileNotFoundError):
            services.run_audits[name].cut(epoch)
            os.truncate(newest, rng.randrange(100))


def throw_viewers_out(services: SoakServices, _chance: random.Random) -> None:
    for viewer in services.viewers:
        viewer.leave()


def send_noise(services: SoakServices, rng: random.Random) -> None:
    """A signed-in viewer that says nothing sensible."""
    daemon_address = read_daemon_address(services.root)
    if daemon_address is None:
        return
    bearer = {"authorization": f"Bearer {token_file(services.root).read_text().strip()}"}
    for path in ("/api/events", f"/api/runs/{rng.choice(RUNS)}/frames"):
        with contextlib.suppress(OSError, WebSocketException, TimeoutError):
            address = daemon_address.url.replace("http", "ws", 1) + path
            with open_socket(address, additional_headers=bearer, proxy=None, open_timeout=5) as socket:
                socket.send(rng.choice(['{"fps": -1}', "[" * 5000, "\x00" * 1000]))
                socket.send(rng.randbytes(1000))


FAULTS: tuple[Callable[[SoakServices, random.Random], None], ...] = (
    kill_daemon,
    freeze_daemon,
    kill_trainer,
    kill_monitor,
    stop_trainer,
    kill_evaluation,
    kill_tracker,
    damage_checkpoint,
    throw_viewers_out,
    send_noise,
)
