"""What came with an upload: a sidecar that holds, and weights that are the ones it speaks of."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from pydantic import ValidationError

from palaestra.checkpoints.foreign import ForeignKind, pickle_refused, sniff
from palaestra.checkpoints.names import epoch_of_sidecar, model_name, sidecar_name
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
CLOSING_LINE = re.compile(rb"^# sha256:[0-9a-f]{64}\n", re.MULTILINE)  # of a sidecar


@dataclass(frozen=True)
class VerifiedUpload:
    checkpoint: Checkpoint  # describes the weights and nothing else
    weights: Path


def unpack(stream: IO[bytes], work_directory: Path, most_bytes: int) -> VerifiedUpload:
    """From a zip. Everything in it must belong to the one checkpoint; pickles are refused for what they are."""
    _refuse_pickle(stream)
    with open_archive(stream) as archive:  # type: ignore[arg-type]
        entries = validate_entries(archive, most_bytes)
        sidecars = [name for name in entries if epoch_of_sidecar(name) is not None]
        if len(sidecars) != 1:
            raise RefusedFile(f"refused: the archive has {len(sidecars)} checkpoints in it.", WANTED)
        epoch = epoch_of_sidecar(sidecars[0])
        assert epoch is not None
        anonymous = next((name for name in entries if name not in {sidecars[0], model_name(epoch)}), None)
        if anonymous is not None:
            raise _stranger(anonymous, b"".join(_first(read_pieces(archive, entries[anonymous]))))
        if model_name(epoch) not in entries:
            raise RefusedFile(f"refused: {model_name(epoch)} is not in the archive.", WANTED)
        raw = _whole(read_pieces(archive, entries[sidecars[0]]))
        checkpoint = _described(raw, sidecars[0])
        if checkpoint.epoch != epoch:
            raise RefusedFile(f"refused: {sidecars[0]} speaks of epoch {checkpoint.epoch}.", WANTED)
        return _verified(checkpoint, read_pieces(archive, entries[model_name(epoch)]), work_directory)


def unpack_concatenated(stream: IO[bytes], work_directory: Path) -> VerifiedUpload:
    """From a sidecar with its weights right behind it, which a page can send without packing anything."""
    _refuse_pickle(stream)
    beginning = stream.read(MAX_SIDECAR_BYTES)
    end = CLOSING_LINE.search(beginning)
    if end is None:
        raise RefusedFile("refused: it does not begin with the sidecar of a checkpoint.", WANTED)
    checkpoint = _described(beginning[: end.end()], "the sidecar")
    stream.seek(end.end())
    return _verified(checkpoint, iter(lambda: stream.read(PIECE), b""), work_directory)


def _described(raw: bytes, source: str) -> Checkpoint:
    checkpoint = without_trainer_state(decode(raw, source))
    _refuse_modules(checkpoint, source)
    return checkpoint


def _refuse_modules(checkpoint: Checkpoint, source: str) -> None:
    """Whatever lies in the store counts as made here, and is imported without asking. So it is asked now."""
    try:
        policy, env = PolicyConfig.model_validate(checkpoint.policy), EnvConfig.model_validate(checkpoint.env)
        decode_interface(checkpoint.interface)
    except (ValidationError, DamagedFile, KeyError, TypeError, ValueError) as error:
        raise DamagedFile(f"refused: {source} describes no policy and environment of ours.") from error
    named = policy.module or (env.id if ":" in env.id else "")
    if named:
        raise RefusedFile(
            f"refused: {source} names {named!r}; playing it would import that module and run its code.",
            "If you trust it, copy its run into your own runs directory.",
        )


def _verified(checkpoint: Checkpoint, pieces: Iterable[bytes], work_directory: Path) -> VerifiedUpload:
    """Size, checksum and header, before anybody calls it a checkpoint."""
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
            f"refused: {name} has not the {expected['size']} bytes that {sidecar_name(checkpoint.epoch)} says."
        )
    if digest.hexdigest() != expected["sha256"]:
        raise DamagedFile(f"refused: {name} is not the file that was saved (sha256 differs).", "Upload it again.")
    with path.open("rb") as written:
        beginning = written.read(LENGTH_BYTES + MAX_HEADER_BYTES)
    if sniff(beginning, size) is ForeignKind.PICKLE:
        raise pickle_refused()
    read_header(beginning, size, name)
    return VerifiedUpload(checkpoint, path)


def _refuse_pickle(stream: IO[bytes]) -> None:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    if sniff(stream.read(LENGTH_BYTES + MAX_HEADER_BYTES), size) is ForeignKind.PICKLE:
        raise pickle_refused()
    stream.seek(0)


def _stranger(name: str, beginning: bytes) -> RefusedFile:
    if name == "data.pkl" or sniff(beginning, len(beginning)) is ForeignKind.PICKLE:  # torch.save makes such zips
        return pickle_refused()
    return RefusedFile(f"refused entry {name[:200]!r}: it does not belong to the checkpoint.", WANTED)


def _whole(pieces: Iterator[bytes]) -> bytes:
    content = b""
    for piece in pieces:
        content += piece
        if len(content) > MAX_SIDECAR_BYTES:
            raise RefusedFile(f"refused: a sidecar has at most {MAX_SIDECAR_BYTES} bytes.")
    return content


def _first(pieces: Iterator[bytes]) -> list[bytes]:
    return [next(pieces, b"")]


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
