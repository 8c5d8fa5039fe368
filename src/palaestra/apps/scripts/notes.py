"""What the launcher wrote beside the weights: the script's source, its hash, its arguments, its classes."""

from __future__ import annotations

import hashlib
import json

from palaestra.checkpoints.safetensors_header import LENGTH_BYTES, read_header
from palaestra.core.errors import DamagedFile

NAMES = ("script", "sha256", "source", "args", "classes")


def read_notes(data: bytes, source: str = "this snapshot") -> dict[str, str]:
    """Of the whole file; its bounds are checked before anything is read."""
    read_header(data, len(data), source)
    length = int.from_bytes(data[:LENGTH_BYTES], "little")
    notes = json.loads(data[LENGTH_BYTES : LENGTH_BYTES + length]).get("__metadata__", {})
    missing = [name for name in NAMES if not isinstance(notes.get(name), str)]
    if missing:
        raise DamagedFile(f"{source}: it does not say its {', '.join(missing)}.", "Was it saved from a script's run?")
    if hashlib.sha256(notes["source"].encode()).hexdigest() != notes["sha256"]:
        raise DamagedFile(f"{source}: the script in it is not the one whose hash it names.")
    return {name: notes[name] for name in NAMES} | {"env_id": str(notes.get("env_id", ""))}
