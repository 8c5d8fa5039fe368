"""A checkpoint as a zip, made while it is sent: the weights are never in memory as a whole."""

from __future__ import annotations

import contextlib
import hashlib
import os
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from starlette.responses import StreamingResponse

from palaestra.checkpoints import sidecar
from palaestra.checkpoints.durable import check_sizes, read_sidecar
from palaestra.checkpoints.locks import in_use
from palaestra.checkpoints.names import model_name, sidecar_name
from palaestra.core.errors import DamagedFile
from palaestra.web.file_answer import attachment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from palaestra.core.checkpoint import Checkpoint
    from palaestra.runs.directory import RunDirectory

PIECE = 1 << 20
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same checkpoint gives the same bytes


class CheckpointArchive(StreamingResponse):
    """While it is sent, no retention takes the weights away. What does not verify is refused before the first byte."""

    def __init__(self, directory: RunDirectory, epoch: int, request: Request) -> None:
        with contextlib.ExitStack() as stack:
            stack.enter_context(in_use(directory.checkpoints, epoch))
            described = without_trainer_state(read_sidecar(directory.checkpoints, epoch))
            check_sizes(directory.checkpoints, described)
            weights = stack.enter_context(_verified(directory.checkpoints, described))
            pieces = iter(()) if request.method == "HEAD" else _archive(described, weights)
            name = f"{described.run_name or directory.id}-{epoch}.zip"
            super().__init__(pieces, media_type="application/zip", headers=attachment(name))
            self._held = stack.pop_all()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._held:
            await super().__call__(scope, receive, send)


def without_trainer_state(checkpoint: Checkpoint) -> Checkpoint:
    """What others need to play it: the optimiser's state stays here."""
    name = model_name(checkpoint.epoch)
    return replace(checkpoint, files={name: checkpoint.files[name]})


@contextlib.contextmanager
def _verified(directory: Path, checkpoint: Checkpoint) -> Iterator[BinaryIO]:
    name = model_name(checkpoint.epoch)
    descriptor = os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != checkpoint.files[name]["sha256"]:
            raise DamagedFile(f"{name}: its bytes are not those that were saved (sha256 differs).")
        stream.seek(0)
        yield stream


class _Tray:
    """What a zip writes into, to be taken away piece by piece."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing waits here."""

    def taken(self) -> bytes:
        content, self._pieces = b"".join(self._pieces), []
        return content


def _archive(checkpoint: Checkpoint, weights: BinaryIO) -> Iterator[bytes]:
    tray = _Tray()
    with zipfile.ZipFile(tray, "w", zipfile.ZIP_STORED) as archive:  # type: ignore[call-overload]
        archive.writestr(zipfile.ZipInfo(sidecar_name(checkpoint.epoch), LONG_AGO), sidecar.encode(checkpoint))
        entry = zipfile.ZipInfo(model_name(checkpoint.epoch), LONG_AGO)
        with archive.open(entry, "w", force_zip64=True) as target:
            while piece := weights.read(PIECE):
                target.write(piece)
                yield tray.taken()
    yield tray.taken()
