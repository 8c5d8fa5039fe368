"""The process that runs the W&B client: `python -m palaestra.loggers.wandb.process SOCKET PARENT_PID`.

It reads messages until the stream ends, then finishes. It dies with its parent, and ignores Ctrl-C, which is
meant for the trainer.
"""

from __future__ import annotations

import json
import signal
import socket
import sys
from queue import Queue
from threading import Thread
from typing import TYPE_CHECKING, Any

from palaestra.core.child_process import die_with_parent
from palaestra.core.clock import SystemClock
from palaestra.loggers.wandb.batch import unpack_message
from palaestra.loggers.wandb.session import WandbSession

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGE_BYTES = 1 << 20
INBOX_SIZE = 2_000  # messages of at most some 40 kB; beyond it the socket fills up and the trainer drops messages


def main(arguments: list[str]) -> None:
    descriptor, parent_pid = (int(argument) for argument in arguments)
    die_with_parent(parent_pid)  # loggers are built in the thread that trains, so it is that thread
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=descriptor) as connection:
        try:
            run_session(messages_from(connection))
        except BaseException as error:
            connection.send(f"{type(error).__name__}: {error}".encode()[:4096])
            raise


def run_session(messages: Iterator[dict[str, Any]]) -> None:
    start = next(messages, None)
    if start is None:
        return
    session = WandbSession(start, SystemClock())
    for message in messages:
        session.take(message)
    session.finish()


def messages_from(connection: socket.socket) -> Iterator[dict[str, Any]]:
    """Messages in order. A thread empties the socket meanwhile, so that a slow W&B loses nothing soon."""
    inbox: Queue[bytes] = Queue(INBOX_SIZE)
    Thread(target=_fill, args=(connection, inbox), daemon=True).start()
    while packet := inbox.get():
        yield from unpack_message(json.loads(packet))


def _fill(connection: socket.socket, inbox: Queue[bytes]) -> None:
    while packet := connection.recv(MESSAGE_BYTES):
        inbox.put(packet)
    inbox.put(b"")


if __name__ == "__main__":
    main(sys.argv[1:])
