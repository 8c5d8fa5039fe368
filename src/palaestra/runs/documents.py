"""`request.yaml` and `config.yaml`: the request, and the complete configuration."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from palaestra.config.base import rename_keys
from palaestra.core.errors import DamagedFile
from palaestra.core.run import RunRequest
from palaestra.runs.files import read_yaml, stamped, unstamped, write_yaml

if TYPE_CHECKING:
    from palaestra.runs.directory import RunDirectory

SCHEMA_VERSION = 1


def write_request(directory: RunDirectory, request: RunRequest) -> None:
    write_yaml(directory.request_file, stamped(asdict(request), SCHEMA_VERSION))


def read_request(directory: RunDirectory) -> RunRequest:
    path = directory.request_file
    data = unstamped(read_yaml(path), SCHEMA_VERSION, path)
    if "asked_by" in data:  # the name of the key until 0.1
        data["submitted_by"] = data.pop("asked_by")
    if isinstance(data.get("config"), dict):
        data["config"] = rename_keys(data["config"])
    try:
        return RunRequest(**data)
    except TypeError as error:
        raise DamagedFile(f"{path} does not describe a request ({error}).") from error


def write_config(directory: RunDirectory, config: dict[str, Any]) -> None:
    """The complete config, as plain data (`model_dump(mode="json")`)."""
    write_yaml(directory.config_file, stamped(config, SCHEMA_VERSION))


def read_config(directory: RunDirectory) -> dict[str, Any]:
    """The complete config without its schema version, ready for `TrainConfig.model_validate`."""
    path = directory.config_file
    return rename_keys(unstamped(read_yaml(path), SCHEMA_VERSION, path))


ABSENT = object()  # not the same as None, which is a value


@dataclass(frozen=True)
class Difference:
    key_path: str  # "ppo.learning_rate.start"
    old: Any  # ABSENT where only the new one has the key
    new: Any  # ABSENT where only the old one has it

    def __str__(self) -> str:
        return f"{self.key_path}: {_shown(self.old)} -> {_shown(self.new)}"


def diff_configs(old: dict[str, Any], new: dict[str, Any], prefix: str = "") -> list[Difference]:
    """Sorted by key. 1 and 1.0 are equal, as numbers are; True and 1 are not; NaN equals NaN."""
    found = []
    for key in sorted(old.keys() | new.keys(), key=str):
        before, after = old.get(key, ABSENT), new.get(key, ABSENT)
        key_path = f"{prefix}{key}"
        if isinstance(before, dict) and isinstance(after, dict):
            found += diff_configs(before, after, f"{key_path}.")
        elif not _equal(before, after):
            found.append(Difference(key_path, before, after))
    return found


def format_differences(differences: list[Difference], limit: int | None = None) -> str:
    """One line each, the first `limit` of them."""
    shown = differences if limit is None else differences[:limit]
    lines = [str(difference) for difference in shown]
    hidden = len(differences) - len(shown)
    return "\n".join([*lines, f"and {hidden} more"] if hidden else lines)


def _equal(before: Any, after: Any) -> bool:
    if isinstance(before, bool) or isinstance(after, bool):
        return before is after
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        return len(before) == len(after) and all(map(_equal, before, after))
    if isinstance(before, dict) and isinstance(after, dict):
        return not diff_configs(before, after)
    return bool(before == after) or (before != before and after != after)  # NaN is the one value unlike itself


def _shown(value: Any) -> str:
    return "(absent)" if value is ABSENT else repr(value)
