"""Uploads a checkpoint, verifies it and stores it as a new run.

The run is finished from the start. It is listed, inspected, evaluated, downloaded and removed like any other, and its
request names the origin.
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
from palaestra.checkpoints.files import model_name
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
MAX_UPLOADS = 2  # at the same time; each may take 1 GiB of disk
LISTED_SECONDS = 5.0  # until the daemon lists a run that it did not create itself
SERVICE = "uploads"
RECIPE = "upload"


class UploadQuery(Query):
    name: str = Field("", max_length=100, description="of the new run; default: a generated name")


class UploadedCheckpoint(TypedDict):
    target: str  # RUN:EPOCH
    run: str
    checkpoint: CheckpointSummary


@dataclass
class UploadCount:
    active: int = 0


async def upload_checkpoint(call: Call) -> UploadedCheckpoint:
    """Writes the body to disk as it arrives, then verifies it."""
    count: UploadCount = call.context.services.setdefault(SERVICE, UploadCount())
    if count.active >= MAX_UPLOADS:
        raise HttpError(503, f"{MAX_UPLOADS} uploads are running (the maximum).", "Try again later.")
    count.active += 1
    try:
        with (
            _as_store_errors(),
            _work_directory(call.context) as work_directory,
            tempfile.TemporaryFile(dir=work_directory) as stream,
        ):
            async for piece in limited_stream(call.request, MAX_BYTES):
                await run_in_threadpool(stream.write, piece)
            return await run_in_threadpool(_accept, call, stream, work_directory)
    finally:
        count.active -= 1


def _accept(call: Call, stream: IO[bytes], work_directory: Path) -> UploadedCheckpoint:
    is_zip = call.request.headers["content-type"].partition(";")[0].strip().lower() == ZIP
    upload = unpack(stream, work_directory, MAX_BYTES) if is_zip else unpack_concatenated(stream, work_directory)
    directory = create_uploaded_run(RunStore(call.context.daemon.root), upload, call.query.name)
    _wait_until_listed(call.context, directory)
    return {
        "target": f"{directory.id}:{upload.checkpoint.epoch}",
        "run": directory.id,
        "checkpoint": describe(upload.checkpoint),
    }


def _wait_until_listed(context: AppContext, directory: RunDirectory) -> None:
    """Waits until the daemon lists the run, so that the client can use it at once."""
    deadline = time.monotonic() + LISTED_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(NotFound):
            context.daemon.get(directory.id)
            return
        time.sleep(0.05)


@contextlib.contextmanager
def _work_directory(context: AppContext) -> Iterator[Path]:
    """Creates a directory on the disk of the runs, so that an accepted file is moved, not copied."""
    directory = DaemonDirectory(context.daemon.root).path / "uploads"
    directory.mkdir(mode=0o700, exist_ok=True)
    _sweep(directory)
    with tempfile.TemporaryDirectory(dir=directory, prefix=f"{os.getpid()}-") as work_directory:
        yield DaemonDirectory(context.daemon.root).path.joinpath("uploads", work_directory)


def _sweep(directory: Path) -> None:
    """Removes partial uploads of earlier daemons; this process is the only daemon."""
    for path in directory.iterdir():
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
        raise StoreRefused(f"Cannot write the upload: {error.strerror}.", "Free disk space.") from error
    except PalaestraError as error:
        if isinstance(error.__cause__, OSError) and not isinstance(error, StoreRefused):
            raise StoreRefused(error.message, error.hint) from error
        raise


def create_uploaded_run(store: RunStore, upload: VerifiedUpload, name: str) -> RunDirectory:
    """Creates the run and moves the weights into it, the sidecar last. A failure leaves no run behind."""
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
    """Marks the run as finished, without a process."""
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
        "upload a checkpoint: a zip, or its sidecar followed by its weights",
        UploadQuery,
        response=UploadedCheckpoint,
        status=201,
        errors=(408, 409, 503, 507),
        takes=(ZIP, PLAIN),
        body_limit=MAX_BYTES,
        is_stream=True,
    ),
)
