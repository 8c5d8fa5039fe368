"""Uploads a checkpoint, verifies it and stores it as a new run.

The run is finished from the start. It is listed, inspected, evaluated, downloaded and removed like any other, and its
request names the origin.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, TypedDict

from pydantic import Field, ValidationError
from starlette.concurrency import run_in_threadpool

from palaestra.checkpoints.convert import FileKind, pickle_refused, sniff
from palaestra.checkpoints.durable import rewrite_sidecar
from palaestra.checkpoints.files import epoch_of_sidecar, model_name, sidecar_name
from palaestra.checkpoints.safetensors_header import LENGTH_BYTES, MAX_HEADER_BYTES, read_header
from palaestra.checkpoints.sidecar import MAX_BYTES as MAX_SIDECAR_BYTES
from palaestra.checkpoints.sidecar import decode
from palaestra.config.env import EnvConfig
from palaestra.config.policy import PolicyConfig
from palaestra.core.errors import DamagedFile, NotFound, PalaestraError, RefusedFile
from palaestra.core.run import UPLOADED, RunRequest, RunState
from palaestra.core.spaces import decode_interface
from palaestra.daemon.errors import StoreRefused
from palaestra.daemon.settings import DaemonDirectory
from palaestra.runs.files import fsync_directory
from palaestra.runs.status import read_written_record, with_state, write_record
from palaestra.runs.store import RunStore
from palaestra.web.endpoints import Call, Endpoint
from palaestra.web.request_parsing import Query, limited_stream
from palaestra.web.resources.checkpoint_zip import open_archive, read_pieces, validate_entries, without_trainer_state
from palaestra.web.resources.checkpoints import CheckpointSummary, describe
from palaestra.web.responses import HttpError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from palaestra.core.checkpoint import Checkpoint
    from palaestra.runs.directory import RunDirectory
    from palaestra.web.context import AppContext


WANTED = "A checkpoint is model_NNNN.yaml with its model_NNNN.safetensors."
PIECE = 1 << 20
CHECKSUM_LINE = re.compile(rb"^# sha256:[0-9a-f]{64}\n", re.MULTILINE)  # of a sidecar


@dataclass(frozen=True)
class VerifiedUpload:
    """A checkpoint whose weights match its sidecar."""

    checkpoint: Checkpoint  # of the weights only
    weights: Path


def unpack(stream: IO[bytes], work_directory: Path, max_bytes: int) -> VerifiedUpload:
    """Unpacks a zip that contains exactly one checkpoint. Pickles are refused."""
    _refuse_pickle(stream)
    with open_archive(stream) as archive:  # type: ignore[arg-type]
        entries = validate_entries(archive, max_bytes)
        sidecars = [name for name in entries if epoch_of_sidecar(name) is not None]
        if len(sidecars) != 1:
            raise RefusedFile(f"refused: the archive contains {len(sidecars)} checkpoints (must be 1).", WANTED)
        epoch = epoch_of_sidecar(sidecars[0])
        assert epoch is not None
        unexpected = next((name for name in entries if name not in {sidecars[0], model_name(epoch)}), None)
        if unexpected is not None:
            raise _unexpected_entry(unexpected, b"".join(_first(read_pieces(archive, entries[unexpected]))))
        if model_name(epoch) not in entries:
            raise RefusedFile(f"refused: {model_name(epoch)} is not in the archive.", WANTED)
        raw = _read_all(read_pieces(archive, entries[sidecars[0]]))
        checkpoint = _read_sidecar(raw, sidecars[0])
        if checkpoint.epoch != epoch:
            raise RefusedFile(f"refused: {sidecars[0]} describes epoch {checkpoint.epoch}.", WANTED)
        return _verify_weights(checkpoint, read_pieces(archive, entries[model_name(epoch)]), work_directory)


def unpack_concatenated(stream: IO[bytes], work_directory: Path) -> VerifiedUpload:
    """Unpacks a sidecar followed by its weights, which a page can send without making a zip."""
    _refuse_pickle(stream)
    head = stream.read(MAX_SIDECAR_BYTES)
    end = CHECKSUM_LINE.search(head)
    if end is None:
        raise RefusedFile("refused: the upload does not start with the sidecar of a checkpoint.", WANTED)
    checkpoint = _read_sidecar(head[: end.end()], "the sidecar")
    stream.seek(end.end())
    return _verify_weights(checkpoint, iter(lambda: stream.read(PIECE), b""), work_directory)


def _read_sidecar(raw: bytes, source: str) -> Checkpoint:
    checkpoint = without_trainer_state(decode(raw, source))
    _refuse_modules(checkpoint, source)
    return checkpoint


def _refuse_modules(checkpoint: Checkpoint, source: str) -> None:
    """Refuses checkpoints that name a module: checkpoints in the runs directory are trusted and import theirs."""
    try:
        policy, env = PolicyConfig.model_validate(checkpoint.policy), EnvConfig.model_validate(checkpoint.env)
        decode_interface(checkpoint.interface)
    except (ValidationError, DamagedFile, KeyError, TypeError, ValueError) as error:
        raise DamagedFile(f"refused: {source} contains no valid policy and environment.") from error
    named = policy.module or (env.id if ":" in env.id else "")
    if named:
        raise RefusedFile(
            f"refused: {source} names {named!r}; playing it would import that module and run its code.",
            "If you trust it, copy its run into your own runs directory.",
        )


def _verify_weights(checkpoint: Checkpoint, pieces: Iterable[bytes], work_directory: Path) -> VerifiedUpload:
    """Writes the weights and checks size, checksum and header."""
    name = model_name(checkpoint.epoch)
    expected, digest, size, path = checkpoint.files[name], hashlib.sha256(), 0, work_directory / name
    with open(path, "xb", opener=_private) as target:
        for piece in pieces:
            size += len(piece)
            if size > expected["size"]:
                break
            digest.update(piece)
            target.write(piece)
        target.flush()
        os.fsync(target.fileno())
    if size != expected["size"]:
        raise DamagedFile(
            f"refused: {name} does not have the {expected['size']} bytes in {sidecar_name(checkpoint.epoch)}."
        )
    if digest.hexdigest() != expected["sha256"]:
        raise DamagedFile(f"refused: {name} does not match its checksum (sha256).", "Upload it again.")
    with path.open("rb") as written:
        head = written.read(LENGTH_BYTES + MAX_HEADER_BYTES)
    if sniff(head, size) is FileKind.PICKLE:
        raise pickle_refused()
    read_header(head, size, name)
    return VerifiedUpload(checkpoint, path)


def _refuse_pickle(stream: IO[bytes]) -> None:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    if sniff(stream.read(LENGTH_BYTES + MAX_HEADER_BYTES), size) is FileKind.PICKLE:
        raise pickle_refused()
    stream.seek(0)


def _unexpected_entry(name: str, head: bytes) -> RefusedFile:
    if name == "data.pkl" or sniff(head, len(head)) is FileKind.PICKLE:  # torch.save makes such zips
        return pickle_refused()
    return RefusedFile(f"refused entry {name[:200]!r}: it does not belong to the checkpoint.", WANTED)


def _read_all(pieces: Iterator[bytes]) -> bytes:
    content = b""
    for piece in pieces:
        content += piece
        if len(content) > MAX_SIDECAR_BYTES:
            raise RefusedFile(f"refused: the sidecar is larger than {MAX_SIDECAR_BYTES} bytes.")
    return content


def _first(pieces: Iterator[bytes]) -> list[bytes]:
    return [next(pieces, b"")]


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


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
    record = with_state(read_written_record(directory), RunState.RUNNING)
    finished = with_state(
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
