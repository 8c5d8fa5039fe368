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
from typing import IO, TYPE_CHECKING, Any, TypedDict

from pydantic import Field
from starlette.concurrency import run_in_threadpool

from palaestra.checkpoints.durable import rewrite_sidecar
from palaestra.checkpoints.names import model_name
from palaestra.core.errors import NotFound, PalaestraError
from palaestra.core.run import UPLOADED, RunRequest, RunState
from palaestra.daemon.errors import StoreRefused
from palaestra.daemon.settings import DaemonDirectory
from palaestra.runs.files import fsync_directory
from palaestra.runs.status import moved, read_written_record, write_record
from palaestra.runs.store import RunStore
from palaestra.web.endpoints import Call, Endpoint
from palaestra.web.request_parsing import Query, limited_stream
from palaestra.web.resources.checkpoints import CheckpointSummary, describe
from palaestra.web.resources.upload_verification import unpack, unpack_concatenated
from palaestra.web.responses import HttpError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from palaestra.runs.directory import RunDirectory
    from palaestra.web.context import AppContext
    from palaestra.web.resources.upload_verification import VerifiedUpload

MAX_BYTES = 1 << 30
ZIP, PLAIN = "application/zip", "application/octet-stream"
AT_ONCE = 2  # uploads; each may take a gibibyte of disk
NOTICE_SECONDS = 5.0  # in which the daemon sees a run that it did not make itself
SERVICE = "uploads"
RECIPE = "upload"


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
    desk: Desk = call.context.services.setdefault(SERVICE, Desk())
    if desk.busy >= AT_ONCE:
        raise HttpError(503, f"{AT_ONCE} uploads are under way already.", "Try again when one has ended.")
    desk.busy += 1
    try:
        with (
            _as_store_errors(),
            _workshop(call.context) as work_directory,
            tempfile.TemporaryFile(dir=work_directory) as stream,
        ):
            async for piece in limited_stream(call.request, MAX_BYTES):
                await run_in_threadpool(stream.write, piece)
            return await run_in_threadpool(_take_in, call, stream, work_directory)
    finally:
        desk.busy -= 1


def _take_in(call: Call, stream: IO[bytes], work_directory: Path) -> UploadedCheckpoint:
    is_zip = call.request.headers["content-type"].partition(";")[0].strip().lower() == ZIP
    upload = unpack(stream, work_directory, MAX_BYTES) if is_zip else unpack_concatenated(stream, work_directory)
    directory = create_uploaded_run(RunStore(call.context.daemon.root), upload, call.query.name)
    _await_notice(call.context, directory)
    return {
        "target": f"{directory.id}:{upload.checkpoint.epoch}",
        "run": directory.id,
        "checkpoint": describe(upload.checkpoint),
    }


def _await_notice(context: AppContext, directory: RunDirectory) -> None:
    """Whoever uploads wants to use it at once."""
    deadline = time.monotonic() + NOTICE_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(NotFound):
            context.daemon.get(directory.id)
            return
        time.sleep(0.05)


@contextlib.contextmanager
def _workshop(context: AppContext) -> Iterator[Path]:
    """On the disk of the store, so that what is accepted is moved, not copied."""
    place = DaemonDirectory(context.daemon.root).path / "uploads"
    place.mkdir(mode=0o700, exist_ok=True)
    _sweep(place)
    with tempfile.TemporaryDirectory(dir=place, prefix=f"{os.getpid()}-") as work_directory:
        yield DaemonDirectory(context.daemon.root).path.joinpath("uploads", work_directory)


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


def create_uploaded_run(store: RunStore, upload: VerifiedUpload, name: str) -> RunDirectory:
    """The weights are moved there; a failure leaves no run behind. The sidecar comes last, as always."""
    checkpoint = upload.checkpoint
    origin = {"run": checkpoint.run, "run_name": checkpoint.run_name, "epoch": checkpoint.epoch}
    request = RunRequest(UPLOADED, RECIPE, {"origin": origin}, name, submitted_by="web")
    directory = store.create(request, _config(upload), name or None, checkpoint.agent_step)
    try:
        upload.weights.rename(directory.checkpoints / model_name(checkpoint.epoch))
        fsync_directory(directory.checkpoints)
        rewrite_sidecar(directory.checkpoints, checkpoint)
        _finish(directory, upload)
    except BaseException:
        store.remove(directory.id)
        raise
    return directory


def _config(upload: VerifiedUpload) -> dict[str, Any]:
    checkpoint = upload.checkpoint
    return {"env": checkpoint.env, "policy": checkpoint.policy, "seed": checkpoint.seed}


def _finish(directory: RunDirectory, upload: VerifiedUpload) -> None:
    """Nothing of it ever ran here, so that no process is named."""
    record = moved(read_written_record(directory), RunState.RUNNING)
    finished = moved(
        record,
        RunState.FINISHED,
        ended_at=record.created_at,
        updated_at=record.created_at,
        exit_code=0,
        epoch=upload.checkpoint.epoch,
        agent_step=upload.checkpoint.agent_step,
        summary={} if upload.checkpoint.score is None else {"score": upload.checkpoint.score},
    )
    write_record(directory, finished, durable=True)


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
        body_limit=MAX_BYTES,
        is_stream=True,
    ),
)
