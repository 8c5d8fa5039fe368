"""How the files of one epoch are called, and how a name gives its epoch back.

Four digits at least, so that a listing reads well; order is always by the integer, never by the text.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

import psutil

_SIDECAR = re.compile(r"model_(\d{4,18})\.yaml", re.ASCII)
_DATA = re.compile(r"(?:model_(\d{4,18})\.safetensors|trainer_state_(\d{4,18})\.pt)", re.ASCII)
_PROC_IS_THERE = Path("/proc/self/stat").exists()
_TEMPORARY = re.compile(r"\.tmp-(\d{1,10})-(\d{1,16})-.+", re.ASCII)


def model_name(epoch: int) -> str:
    return f"model_{epoch:04d}.safetensors"


def sidecar_name(epoch: int) -> str:
    return f"model_{epoch:04d}.yaml"


def trainer_state_name(epoch: int) -> str:
    return f"trainer_state_{epoch:04d}.pt"


def epoch_of_sidecar(name: str) -> int | None:
    """None for every name that `sidecar_name` would not have given."""
    match = _SIDECAR.fullmatch(name)
    if match is None:
        return None
    epoch = int(match[1])
    return epoch if sidecar_name(epoch) == name else None


def epoch_of_data(name: str) -> int | None:
    """The epoch that weights or a trainer state belong to; None for every other name."""
    match = _DATA.fullmatch(name)
    if match is None:
        return None
    epoch = int(match[1] or match[2])
    return epoch if name in {model_name(epoch), trainer_state_name(epoch)} else None


def temporary_name(name: str) -> str:
    """A name that says whose it is: pid and start time together name one process, ever."""
    return f".tmp-{os.getpid()}-{_own_start(os.getpid())}-{name}"


def owner_is_dead(name: str) -> bool:
    """Whether this is a temporary file whose writer is no more (another process with its pid is not its writer)."""
    match = _TEMPORARY.fullmatch(name)
    return match is not None and _start_of(int(match[1])) != int(match[2])


def is_temporary(name: str) -> bool:
    return _TEMPORARY.fullmatch(name) is not None


@cache
def _own_start(pid: int) -> int | None:
    """Asked once a process; a forked child has another pid and so asks anew."""
    return _start_of(pid)


def _start_of(pid: int) -> int | None:
    """When the process began, on a clock that nobody can set; None when there is no such process."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except (FileNotFoundError, ProcessLookupError):
        return None if _PROC_IS_THERE else _start_without_proc(pid)
    return int(after_name.split()[19])  # starttime, the 22nd field of proc(5)


def _start_without_proc(pid: int) -> int | None:
    return int(psutil.Process(pid).create_time()) if psutil.pid_exists(pid) else None
