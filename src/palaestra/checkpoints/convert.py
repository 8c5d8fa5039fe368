"""Somebody else's weights as plain safetensors. Never unpickles what could run code, not even when asked to."""

from __future__ import annotations

import json
import os
import pickletools
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from palaestra.checkpoints.durable import replace_file
from palaestra.checkpoints.files import open_regular_file
from palaestra.checkpoints.safetensors_header import (
    LENGTH_BYTES,
    MAX_HEADER_BYTES,
    TensorInfo,
    looks_like_safetensors,
    read_header,
)
from palaestra.core.errors import DamagedFile, NotFound, RefusedFile, UsageError

CONVERT_HINT = (
    "Where you trust it (a machine without your keys), open it yourself: "
    "agent = torch.load(FILE, weights_only=False); torch.save(agent.state_dict(), 'plain.pt'); "
    "then: palaestra convert plain.pt"
)


def convert_file(path: str | Path, out: str | Path) -> InspectedFile:
    """A state_dict saved by torch.save, or safetensors, as `out` (.safetensors); returns what it holds now."""
    source, target = Path(path), Path(out)
    if target.suffix != ".safetensors":
        raise UsageError(f"out={target} does not end in .safetensors.")
    if target.exists():
        raise UsageError(f"{target} is there already.", "Choose another name, or remove it first.")
    if not target.parent.is_dir():
        raise UsageError(f"{target.parent} is not a directory.", "Make it first, or choose another place.")
    try:
        found = inspect_file(source)
        with tempfile.TemporaryDirectory(prefix="palaestra-convert-") as workshop:
            made = Path(workshop) / "out.safetensors"
            if found.kind is FileKind.SAFETENSORS:
                shutil.copyfile(source, made)
            else:
                run_child("convert", source, made)
            converted = inspect_file(made)
            replace_file(target.parent.absolute(), target.name, made.read_bytes())
    except RefusedFile as error:
        raise RefusedFile(error.message, CONVERT_HINT) from error
    return InspectedFile(target, converted.kind, converted.tensors)


MAX_FILE_BYTES = 16 << 30
CHILD_TIMEOUT_SECONDS = 60.0
SNIFF_BYTES = 1 << 16
MIN_PICKLE_OPCODES = 16  # so many in a row are no accident, even if the end is not in sight
ZIP_MAGIC = b"PK\x03\x04"
LEGACY_TORCH_MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."


class FileKind(StrEnum):
    SAFETENSORS = "safetensors"
    TORCH = "torch"  # torch.save of plain containers and tensors
    PICKLE = "pickle"  # could run code
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class InspectedFile:
    path: Path
    kind: FileKind
    tensors: dict[str, TensorInfo]  # by name


def inspect_file(path: str | Path) -> InspectedFile:
    """What the file holds. Pickles and whole modules are `RefusedFile`, broken or unknown ones `DamagedFile`."""
    path = Path(path)
    size, first_bytes = read_first_bytes(path)
    kind = sniff(first_bytes, size)
    if kind is FileKind.PICKLE:
        raise pickle_refused()
    if kind is FileKind.UNKNOWN:
        raise DamagedFile(
            f"{path} is neither safetensors nor a file that torch.save wrote.", "Is it complete, and the right file?"
        )
    if kind is FileKind.SAFETENSORS:
        return InspectedFile(path, kind, read_header(first_bytes, size, str(path)))
    listed = run_child("inspect", path)
    tensors = {name: TensorInfo(dtype, tuple(shape)) for name, (dtype, shape) in listed.items()}
    return InspectedFile(path, kind, tensors)


def sniff(first_bytes: bytes, file_bytes: int) -> FileKind:
    """By its first bytes; never by its name, which a sender chooses."""
    if looks_like_safetensors(first_bytes, file_bytes):
        return FileKind.SAFETENSORS
    if first_bytes.startswith((ZIP_MAGIC, LEGACY_TORCH_MAGIC)):
        return FileKind.TORCH
    return FileKind.PICKLE if _is_pickle(first_bytes[:SNIFF_BYTES]) else FileKind.UNKNOWN


def pickle_refused() -> RefusedFile:
    return RefusedFile(
        "refused: file is a Python pickle (could run code).",
        "Convert it in a trusted place with 'palaestra convert'",
    )


def read_first_bytes(path: Path) -> tuple[int, bytes]:
    """Size of a regular file, and enough of it for any header."""
    try:
        with open_regular_file(path, MAX_FILE_BYTES, follow_links=True) as (stream, size):
            return size, stream.read(LENGTH_BYTES + MAX_HEADER_BYTES)
    except FileNotFoundError as error:
        raise NotFound(f"The file does not exist: {path}.") from error


def run_child(action: str, path: Path, *further: Path) -> dict[str, Any]:
    """Let a child with little memory and time parse the file; whatever happens to it does not happen to us."""
    command = [sys.executable, "-P", "-m", "palaestra.checkpoints.convert_process", action, str(path.resolve())]
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


def _is_pickle(first_bytes: bytes) -> bool:
    """Whether a pickle machine would follow these bytes: a protocol mark, or a run of its opcodes."""
    if first_bytes[:1] == b"\x80" and len(first_bytes) > 1 and first_bytes[1] <= 5:
        return True
    count = 0
    try:
        for opcode, _, _ in pickletools.genops(first_bytes):
            count += 1
            if opcode.name == "STOP":
                return count > 1
    except (ValueError, UnicodeError):
        return count >= MIN_PICKLE_OPCODES
    return False
