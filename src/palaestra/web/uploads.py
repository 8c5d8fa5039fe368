"""A checkpoint from elsewhere, taken into the store as a run of its own, after everything in it was verified.

As a run it needs no rules of its own: it is listed, inspected, evaluated, downloaded and removed like any other, and
its journal says where it came from.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, TypedDict

from pydantic import Field
from starlette.concurrency import run_in_threadpool

from palaestra.core.errors import NotFound, PalaestraError
from palaestra.daemon.errors import StoreRefused
from palaestra.daemon.home import DaemonHome
from palaestra.runs.store import RunStore
from palaestra.web.checkpoints import CheckpointSummary, describe
from palaestra.web.errors import Refusal
from palaestra.web.parcels import unpack, unpack_plain
from palaestra.web.reading import Query, limited_stream
from palaestra.web.route import Call, Endpoint
from palaestra.web.settling import settle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from palaestra.runs.directory import RunDirectory
    from palaestra.web.house import House

MOST_BYTES = 1 << 30
ZIP, PLAIN = "application/zip", "application/octet-stream"
AT_ONCE = 2  # uploads; each may take a gibibyte of disk
NOTICE_SECONDS = 5.0  # in which the daemon sees a run that it did not make itself
ROOM = "uploads"


class UploadQuery(Query):
    name: str = Field("", max_length=100, description="of the run that holds it; default: a nickname")


class UploadedCheckpoint(TypedDict):
    target: str  # RUN:EPOCH
    run: str
    checkpoint: CheckpointSummary


@dataclass
class Desk:
    busy: int = 0


async def upload_checkpoint(call: Call) -> UploadedCheckpoint:
    """The body goes to the disk as it comes; nothing of it is believed before all of it is there."""
    desk: Desk = call.house.rooms.setdefault(ROOM, Desk())
    if desk.busy >= AT_ONCE:
        raise Refusal(503, f"{AT_ONCE} uploads are under way already.", "Try again when one has ended.")
    desk.busy += 1
    try:
        with _as_store_errors(), _workshop(call.house) as workshop, tempfile.TemporaryFile(dir=workshop) as stream:
            async for piece in limited_stream(call.request, MOST_BYTES):
                await run_in_threadpool(stream.write, piece)
            return await run_in_threadpool(_take_in, call, stream, workshop)
    finally:
        desk.busy -= 1


def _take_in(call: Call, stream: IO[bytes], workshop: Path) -> UploadedCheckpoint:
    is_zip = call.request.headers["content-type"].partition(";")[0].strip().lower() == ZIP
    parcel = unpack(stream, workshop, MOST_BYTES) if is_zip else unpack_plain(stream, workshop)
    directory = settle(RunStore(call.house.daemon.root), parcel, call.query.name)
    _await_notice(call.house, directory)
    return {
        "target": f"{directory.id}:{parcel.checkpoint.epoch}",
        "run": directory.id,
        "checkpoint": describe(parcel.checkpoint),
    }


def _await_notice(house: House, directory: RunDirectory) -> None:
    """Whoever uploads wants to use it at once."""
    deadline = time.monotonic() + NOTICE_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(NotFound):
            house.daemon.get(directory.id)
            return
        time.sleep(0.05)


@contextlib.contextmanager
def _workshop(house: House) -> Iterator[Path]:
    """On the disk of the store, so that what is accepted is moved, not copied."""
    place = DaemonHome(house.daemon.root).path / "uploads"
    place.mkdir(mode=0o700, exist_ok=True)
    _sweep(place)
    with tempfile.TemporaryDirectory(dir=place, prefix=f"{os.getpid()}-") as workshop:
        yield DaemonHome(house.daemon.root).path.joinpath("uploads", workshop)


def _sweep(place: Path) -> None:
    """What a daemon that was killed left half uploaded. There is only one daemon, and it is this process."""
    for path in place.iterdir():
        match = re.match(r"(\d+)-", path.name)
        if match is not None and int(match[1]) != os.getpid():
            for file in path.iterdir():
                file.unlink(missing_ok=True)
            path.rmdir()


@contextlib.contextmanager
def _as_store_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreRefused(f"The upload could not be written: {error.strerror}.", "Make room first.") from error
    except PalaestraError as error:
        if isinstance(error.__cause__, OSError) and not isinstance(error, StoreRefused):
            raise StoreRefused(error.message, error.hint) from error
        raise


ROUTES = (
    Endpoint(
        "POST",
        "/api/checkpoints",
        upload_checkpoint,
        "a checkpoint from elsewhere: a zip, or its sidecar followed by its weights",
        UploadQuery,
        response=UploadedCheckpoint,
        status=201,
        errors=(408, 409, 503, 507),
        takes=(ZIP, PLAIN),
        body_limit=MOST_BYTES,
        is_stream=True,
    ),
)
