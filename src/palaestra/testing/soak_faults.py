"""What happens to a soak: one of these every few seconds, drawn by its seed."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

import psutil
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect as open_socket

from palaestra.checkpoints.names import epoch_of_data
from palaestra.client.doorplate import read_doorplate, token_file
from palaestra.daemon.keeping import read_note
from palaestra.daemon.tree import send
from palaestra.testing.soak_house import RUNS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from palaestra.testing.soak_house import House

FROZEN_SECONDS = 2.0


def kill_daemon(house: House, _chance: random.Random) -> None:
    house.daemon.kill()
    house.daemon.wait()


def freeze_daemon(house: House, _chance: random.Random) -> None:
    house.daemon.send_signal(signal.SIGSTOP)
    time.sleep(FROZEN_SECONDS)
    house.daemon.send_signal(signal.SIGCONT)


def kill_trainer(house: House, chance: random.Random) -> None:
    note = read_note(house.directory(chance.choice(RUNS)))
    if note is not None and note.worker is not None:
        send(note.worker, signal.SIGKILL)


def kill_keeper(house: House, chance: random.Random) -> None:
    note = read_note(house.directory(chance.choice(RUNS)))
    if note is not None:
        send(note.keeper, signal.SIGKILL)


def stop_trainer(house: House, chance: random.Random) -> None:
    name = chance.choice(RUNS)
    house.ask(lambda client: client.stop(name))


def kill_evaluation(house: House, _chance: random.Random) -> None:
    if house.evaluation is not None:
        house.evaluation.kill()
        house.evaluation.wait()


def kill_tracker(house: House, _chance: random.Random) -> None:
    """W&B's own processes of the run that is tracked; the training must not notice."""
    for member in house.members(RUNS[0]):
        with contextlib.suppress(psutil.Error):
            if "wandb" in " ".join(psutil.Process(member.pid).cmdline()):
                send(member, signal.SIGKILL)


def damage_checkpoint(house: House, chance: random.Random) -> None:
    """Cut the newest weights, then kill: the one before must be gone on from."""
    name = chance.choice(RUNS)
    newest = house.newest_weights(name)
    epoch = epoch_of_data(newest.name) if newest is not None else None
    note = read_note(house.directory(name))
    if newest is not None and epoch is not None and note is not None and note.worker is not None:
        send(note.worker, signal.SIGKILL)
        with contextlib.suppress(FileNotFoundError):
            house.ledgers[name].cut(epoch)
            os.truncate(newest, chance.randrange(100))


def throw_viewers_out(house: House, _chance: random.Random) -> None:
    for viewer in house.viewers:
        viewer.leave()


def send_noise(house: House, chance: random.Random) -> None:
    """A signed-in viewer that says nothing sensible."""
    plate = read_doorplate(house.root)
    if plate is None:
        return
    bearer = {"authorization": f"Bearer {token_file(house.root).read_text().strip()}"}
    for path in ("/api/events", f"/api/runs/{chance.choice(RUNS)}/frames"):
        with contextlib.suppress(OSError, WebSocketException, TimeoutError):
            address = plate.url.replace("http", "ws", 1) + path
            with open_socket(address, additional_headers=bearer, proxy=None, open_timeout=5) as socket:
                socket.send(chance.choice(['{"fps": -1}', "[" * 5000, "\x00" * 1000]))
                socket.send(chance.randbytes(1000))


FAULTS: tuple[Callable[[House, random.Random], None], ...] = (
    kill_daemon,
    freeze_daemon,
    kill_trainer,
    kill_keeper,
    stop_trainer,
    kill_evaluation,
    kill_tracker,
    damage_checkpoint,
    throw_viewers_out,
    send_noise,
)
