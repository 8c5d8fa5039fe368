"""What is this file? Asked of files that strangers send, so nothing in them is executed and every cost is bounded."""

from __future__ import annotations

import json
import os
import pickletools
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from palaestra.checkpoints.regular_file import open_regular_file
from palaestra.checkpoints.safetensors_header import (
    LENGTH_BYTES,
    MAX_HEADER_BYTES,
    TensorInfo,
    looks_like_safetensors,
    read_header,
)
from palaestra.core.errors import DamagedFile, NotFound, RefusedFile

MAX_FILE_BYTES = 16 << 30
CHILD_TIMEOUT_SECONDS = 60.0
SNIFF_BYTES = 1 << 16
MIN_PICKLE_OPCODES = 16  # so many in a row are no accident, even if the end is not in sight
ZIP_MAGIC = b"PK\x03\x04"
LEGACY_TORCH_MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."


class ForeignKind(StrEnum):
    SAFETENSORS = "safetensors"
    TORCH = "torch"  # torch.save of plain containers and tensors
    PICKLE = "pickle"  # could run code
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ForeignFile:
    path: Path
    kind: ForeignKind
    tensors: dict[str, TensorInfo]  # by name


def inspect_foreign(path: str | Path) -> ForeignFile:
    """What the file holds. Pickles and whole modules are `RefusedFile`, broken or unknown ones `DamagedFile`."""
    path = Path(path)
    size, beginning = read_beginning(path)
    kind = sniff(beginning, size)
    if kind is ForeignKind.PICKLE:
        raise pickle_refused()
    if kind is ForeignKind.UNKNOWN:
        raise DamagedFile(
            f"{path} is neither safetensors nor a file that torch.save wrote.", "Is it complete, and the right file?"
        )
    if kind is ForeignKind.SAFETENSORS:
        return ForeignFile(path, kind, read_header(beginning, size, str(path)))
    listed = run_child("inspect", path)
    tensors = {name: TensorInfo(dtype, tuple(shape)) for name, (dtype, shape) in listed.items()}
    return ForeignFile(path, kind, tensors)


def sniff(beginning: bytes, file_bytes: int) -> ForeignKind:
    """By its first bytes; never by its name, which a sender chooses."""
    if looks_like_safetensors(beginning, file_bytes):
        return ForeignKind.SAFETENSORS
    if beginning.startswith((ZIP_MAGIC, LEGACY_TORCH_MAGIC)):
        return ForeignKind.TORCH
    return ForeignKind.PICKLE if _is_pickle(beginning[:SNIFF_BYTES]) else ForeignKind.UNKNOWN


def pickle_refused() -> RefusedFile:
    return RefusedFile(
        "refused: file is a Python pickle (could run code).",
        "Convert it in a trusted place with 'palaestra convert'",
    )


def read_beginning(path: Path) -> tuple[int, bytes]:
    """Size of a regular file, and enough of it for any header."""
    try:
        with open_regular_file(path, MAX_FILE_BYTES, follow_links=True) as (stream, size):
            return size, stream.read(LENGTH_BYTES + MAX_HEADER_BYTES)
    except FileNotFoundError as error:
        raise NotFound(f"There is no file {path}.") from error


def run_child(action: str, path: Path, *further: Path) -> dict[str, Any]:
    """Let a child with little memory and time parse the file; whatever happens to it does not happen to us."""
    command = [sys.executable, "-P", "-m", "palaestra.checkpoints.foreign_child", action, str(path.resolve())]
    try:
        done = subprocess.run(
            [*command, *(str(one) for one in further)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=CHILD_TIMEOUT_SECONDS,
            check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        )
    except subprocess.TimeoutExpired as error:
        raise DamagedFile(f"{path} could not be parsed within {CHILD_TIMEOUT_SECONDS:g} s.") from error
    if done.returncode != 0:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [f"signal {-done.returncode}"]
        raise DamagedFile(f"{path} could not be parsed: {last[0][:200]}.", "Is it complete?")
    answer = json.loads(done.stdout)
    if "refused" in answer:
        raise pickle_refused()
    if "problem" in answer:
        raise DamagedFile(f"{path}: {answer['problem']}")
    return dict(answer["tensors"])


def _is_pickle(beginning: bytes) -> bool:
    """Whether a pickle machine would follow these bytes: a protocol mark, or a run of its opcodes."""
    if beginning[:1] == b"\x80" and len(beginning) > 1 and beginning[1] <= 5:
        return True
    count = 0
    try:
        for opcode, _, _ in pickletools.genops(beginning):
            count += 1
            if opcode.name == "STOP":
                return count > 1
    except (ValueError, UnicodeError):
        return count >= MIN_PICKLE_OPCODES
    return False
