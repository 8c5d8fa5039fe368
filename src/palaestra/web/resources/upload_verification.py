"""Verifies an uploaded checkpoint: its sidecar, and that the weights match it."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from pydantic import ValidationError

from palaestra.checkpoints.convert import FileKind, pickle_refused, sniff
from palaestra.checkpoints.files import epoch_of_sidecar, model_name, sidecar_name
from palaestra.checkpoints.safetensors_header import LENGTH_BYTES, MAX_HEADER_BYTES, read_header
from palaestra.checkpoints.sidecar import MAX_BYTES as MAX_SIDECAR_BYTES
from palaestra.checkpoints.sidecar import decode
from palaestra.config.env import EnvConfig
from palaestra.config.policy import PolicyConfig
from palaestra.core.errors import DamagedFile, RefusedFile
from palaestra.core.spaces import decode_interface
from palaestra.web.resources.checkpoint_zip import open_archive, read_pieces, validate_entries, without_trainer_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from palaestra.core.checkpoint import Checkpoint

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
