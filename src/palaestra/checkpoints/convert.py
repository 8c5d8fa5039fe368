"""Somebody else's weights as plain safetensors. Never unpickles what could run code, not even when asked to."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from palaestra.checkpoints.durable import replace_file
from palaestra.checkpoints.foreign import ForeignFile, ForeignKind, inspect_foreign, run_child
from palaestra.core.errors import RefusedFile, UsageError

BY_HAND = (
    "Where you trust it (a machine without your keys), open it yourself: "
    "agent = torch.load(FILE, weights_only=False); torch.save(agent.state_dict(), 'plain.pt'); "
    "then: palaestra convert plain.pt"
)


def convert_foreign(path: str | Path, out: str | Path) -> ForeignFile:
    """A state_dict saved by torch.save, or safetensors, as `out` (.safetensors); returns what it holds now."""
    source, target = Path(path), Path(out)
    if target.suffix != ".safetensors":
        raise UsageError(f"out={target} does not end in .safetensors.")
    if target.exists():
        raise UsageError(f"{target} is there already.", "Choose another name, or remove it first.")
    if not target.parent.is_dir():
        raise UsageError(f"{target.parent} is not a directory.", "Make it first, or choose another place.")
    try:
        found = inspect_foreign(source)
        with tempfile.TemporaryDirectory(prefix="palaestra-convert-") as workshop:
            made = Path(workshop) / "out.safetensors"
            if found.kind is ForeignKind.SAFETENSORS:
                shutil.copyfile(source, made)
            else:
                run_child("convert", source, made)
            converted = inspect_foreign(made)
            replace_file(target.parent.absolute(), target.name, made.read_bytes())
    except RefusedFile as error:
        raise RefusedFile(error.message, BY_HAND) from error
    return ForeignFile(target, converted.kind, converted.tensors)
