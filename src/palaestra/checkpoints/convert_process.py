"""A separate process with resource limits that parses one untrusted file.

    python -P -m palaestra.checkpoints.convert_process inspect FILE
    python -P -m palaestra.checkpoints.convert_process convert FILE OUT.safetensors

It answers with one line of JSON. An error that is not foreseen here simply ends the process; the parent reports it.
"""

from __future__ import annotations

import json
import pickle
import resource
import sys
import zipfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from palaestra.checkpoints.safetensors_header import MAX_TENSORS

MEBIBYTE = 1 << 20
INSPECT_COPIES = 2  # of the file, in memory
CONVERT_COPIES = 4
MARGIN_BYTES = 64 * MEBIBYTE
CPU_SECONDS = 2
BYTES_PER_CPU_SECOND = 50 * MEBIBYTE
MAX_ZIP_ENTRIES = 2 * MAX_TENSORS
STATE_KEYS = ("state_dict", "model_state_dict", "model", "policy", "agent", "network")


def main(arguments: list[str]) -> dict[str, Any]:
    action, path = arguments[0], Path(arguments[1])
    limit_resources(path.stat().st_size, INSPECT_COPIES if action == "inspect" else CONVERT_COPIES)
    if zipfile.is_zipfile(path) and (problem := zip_problem(path)):
        return {"problem": problem}
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        return {"refused": "pickle"}
    tensors = find_state(content)
    if isinstance(tensors, str):
        return {"problem": tensors}
    if action == "convert":
        copies = {
            name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
        }
        save_file(copies, arguments[2])
    return {
        "tensors": {name: [str(one.dtype).removeprefix("torch."), list(one.shape)] for name, one in tensors.items()}
    }


def limit_resources(file_bytes: int, copies: int) -> None:
    """On top of what importing torch took: a few times the file, and seconds."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    memory = pages * resource.getpagesize() + copies * file_bytes + MARGIN_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + 1 + CPU_SECONDS + file_bytes // BYTES_PER_CPU_SECOND
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def zip_problem(path: Path) -> str:
    """What no file of torch.save has: compressed or very many entries. Empty when nothing is wrong."""
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
    if len(entries) > MAX_ZIP_ENTRIES:
        return f"{len(entries)} entries in the archive; at most {MAX_ZIP_ENTRIES} are read."
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        return "compressed entries in the archive, which torch.save never writes."
    return ""


def find_state(content: Any) -> dict[str, Tensor] | str:
    """The tensors by name, at the top or under the one key that holds them; else what is wrong."""
    if not isinstance(content, dict):
        return f"holds a {type(content).__name__}, not a state_dict."
    if is_state(content):
        return content
    inside = [key for key, value in content.items() if isinstance(value, dict) and is_state(value)]
    known = [key for key in STATE_KEYS if key in inside]
    if len(inside) == 1 or known:
        return dict(content[(known or inside)[0]])
    return f"no state_dict found among its keys {sorted(map(str, content))[:20]}."


def is_state(value: dict[Any, Any]) -> bool:
    return bool(value) and all(type(key) is str and isinstance(item, Tensor) for key, item in value.items())


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1:])) + "\n")
