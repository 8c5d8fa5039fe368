"""A `Checkpoint` as YAML with its own checksum in the last line.

The sidecar is the commit mark: it names its own epoch and its files, so that one copied over from another epoch,
cut short or flipped in a bit is told apart from a true one before a single tensor is read.
"""

from __future__ import annotations

import hashlib
import math
import sys
from dataclasses import fields, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from ruamel.yaml.error import YAMLError

from palaestra.checkpoints.files import is_segment_name, model_name, segment_entry, trainer_state_name
from palaestra.config.yaml import dump_yaml, parse_yaml
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.errors import DamagedFile, UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OLDEST_READABLE = 1
CURRENT_FORMAT = 2
SINCE_FORMAT_2 = "replay_segments"  # a sidecar without any is still written in format 1, which older versions read
MAX_BYTES = 128 << 10
MAX_MARKS = 8_000  # commas, colons and line ends: pure-Python YAML takes 100 us for each, so below a second for all
_MARK = b"# sha256:"
_TAIL_BYTES = len(_MARK) + 64 + 1
_HEX_DIGITS = frozenset("0123456789abcdef")


def encode(checkpoint: Checkpoint) -> bytes:
    """The bytes of the sidecar. A score that is not a finite number is no score: it is written as none."""
    content: dict[str, Any] = {"schema_version": CURRENT_FORMAT if checkpoint.replay_segments else 1}
    for field in fields(Checkpoint):
        if field.name != "path":
            content[field.name] = _plain(getattr(checkpoint, field.name), field.name)
    if not checkpoint.replay_segments:
        del content[SINCE_FORMAT_2]
    for name in ("score", "avg_reward"):
        if content[name] is not None and not math.isfinite(content[name]):
            content[name] = None
    try:
        body = dump_yaml(content).encode("utf-8")
    except (YAMLError, UnicodeEncodeError) as error:
        raise UsageError(f"This checkpoint's description cannot be written as YAML: {error}.") from error
    raw = body + _MARK + hashlib.sha256(body).hexdigest().encode() + b"\n"
    try:
        decode(raw, f"the description of epoch {checkpoint.epoch}")
    except DamagedFile as error:
        raise UsageError(f"This checkpoint could not be read back: {error.message}", error.hint) from error
    return raw


def decode(raw: bytes, source: str, path: Path | None = None) -> Checkpoint:
    """The checkpoint, every field checked; `DamagedFile` names `source` and what is wrong with it."""
    content = _checked_content(raw, source)
    version = content.pop("schema_version", None)
    if type(version) is not int or not OLDEST_READABLE <= version <= CURRENT_FORMAT:
        raise DamagedFile(
            f"{source}: format {version}, this version reads {OLDEST_READABLE}–{CURRENT_FORMAT}.",  # noqa: RUF001
            "Use the Palaestra that wrote it, or a newer one.",
        )
    if version < CURRENT_FORMAT:
        content.setdefault(SINCE_FORMAT_2, {})
    for name, is_right in _FIELDS.items():
        if name not in content:
            raise DamagedFile(f"{source}: the field '{name}' is missing.")
        if not is_right(content[name]):
            raise DamagedFile(f"{source}: {name}={_shown(content[name])} is not what this field holds.")
    if unknown := [key for key in content if key not in _FIELDS]:  # None may be one
        raise DamagedFile(f"{source}: unknown field {unknown[0]!r}.", did_you_mean(str(unknown[0]), _FIELDS))
    checkpoint = Checkpoint(**content)
    _check_file_names(checkpoint, source)
    return replace(checkpoint, path=path)


def digest(data: bytes) -> dict[str, Any]:
    """What the sidecar keeps of a file: its size in bytes and its sha256."""
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _checked_content(raw: bytes, source: str) -> dict[str, Any]:
    if len(raw) > MAX_BYTES:
        raise DamagedFile(f"{source}: {len(raw)} bytes; a sidecar has at most {MAX_BYTES}.")
    body, tail = raw[:-_TAIL_BYTES], raw[-_TAIL_BYTES:]
    if tail != _MARK + hashlib.sha256(body).hexdigest().encode() + b"\n":
        raise DamagedFile(f"{source}: the checksum in its last line does not match (cut short or changed).")
    if sum(map(body.count, (b",", b":", b"\n"))) > MAX_MARKS:
        raise DamagedFile(f"{source}: more than {MAX_MARKS} entries.")
    try:
        content = parse_yaml(body, "its text")
    except DamagedFile as error:
        raise DamagedFile(f"{source}: {error.message}", error.hint) from error
    if not isinstance(content, dict):
        raise DamagedFile(f"{source}: holds no fields at all.")
    return content


def _check_file_names(checkpoint: Checkpoint, source: str) -> None:
    weights, state = model_name(checkpoint.epoch), trainer_state_name(checkpoint.epoch)
    if weights not in checkpoint.files or not set(checkpoint.files) <= {weights, state}:
        raise DamagedFile(f"{source}: names the files {sorted(checkpoint.files)}, which are not those of its epoch.")
    for name in checkpoint.replay_segments:
        if not is_segment_name(name):
            raise DamagedFile(f"{source}: names {_shown(name)}, which is no segment of a replay buffer.")


def _plain(value: Any, where: str) -> Any:
    """Exact plain types only: numpy's numbers and enums are written as the plain value they stand for."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, dict):
        return {_plain(key, where): _plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    raise UsageError(f"{where} is a {type(value).__name__}; a checkpoint describes itself in plain values only.")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) in {int, float}


def _is_finite(value: Any) -> bool:
    return _is_number(value) and abs(value) <= sys.float_info.max  # also of whole numbers too large for a float


def _is_finite_or_none(value: Any) -> bool:
    return value is None or _is_finite(value)


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_settings(value: Any) -> bool:
    return type(value) is dict and all(map(_is_text, value))


def _contains(is_right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: _is_settings(value) and all(is_right(item) for item in value.values())


def _is_file_entry(value: Any) -> bool:
    return (
        type(value) is dict
        and set(value) == {"size", "sha256"}
        and _is_count(value["size"])
        and _is_text(value["sha256"])
        and len(value["sha256"]) == 64
        and set(value["sha256"]) <= _HEX_DIGITS
    )


def _is_segment_entry(value: Any) -> bool:
    return _is_text(value) and segment_entry(value) is not None


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "epoch": _is_count,
    "agent_step": _is_count,
    "total_time": lambda value: _is_finite(value) and value >= 0,
    "run": _is_text,
    "run_name": _is_text,
    "saved_at": _is_finite,
    "policy": _is_settings,
    "env": _is_settings,
    "interface": _is_settings,
    "score": _is_finite_or_none,
    "avg_reward": _is_finite_or_none,
    "seed": _is_count,
    "metrics": _contains(_is_number),
    "versions": _contains(_is_text),
    "git_commit": _is_text,
    "files": _contains(_is_file_entry),
    SINCE_FORMAT_2: _contains(_is_segment_entry),
}
