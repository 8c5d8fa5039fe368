"""`request.yaml` and `config.yaml`: what was asked for, and what was made of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from palaestra.config.base import rename_keys
from palaestra.core.errors import DamagedFile
from palaestra.core.run import RunRequest
from palaestra.runs.files import read_yaml, write_yaml
from palaestra.runs.schema import stamped, unstamped

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
