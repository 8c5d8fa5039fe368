"""Worker kinds: what a request may contain, and which process it becomes.

A kind is a plugin of the entry-point group `palaestra.workers`: a module-level object that satisfies `WorkerKind`. The
daemon loads it, so its module must not import torch; the process that it starts may.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from palaestra.core.run import RunRequest


@dataclass(frozen=True)
class FieldError:
    """One error in one field of a request."""

    key: str  # of the field: "ppo.gamma", "name"; empty: the whole request
    message: str
    hint: str = ""
    exit_code: int = UsageError.exit_code  # of the command line, for this error

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class RequestRefused(UsageError):
    """An invalid request, with all of its errors."""

    def __init__(self, field_errors: Sequence[FieldError]) -> None:
        self.field_errors = tuple(field_errors)
        codes = {error.exit_code for error in self.field_errors}
        self.exit_code = codes.pop() if len(codes) == 1 else UsageError.exit_code
        if len(self.field_errors) == 1:
            super().__init__(self.field_errors[0].message, self.field_errors[0].hint)
            return
        lines = "\n".join(f"  - {error}" for error in self.field_errors)
        super().__init__(f"The request has {len(self.field_errors)} errors:\n{lines}")


@dataclass(frozen=True)
class Resources:
    """What a run occupies while it runs, or what the machine has in total."""

    cpus: int = 1
    gpus: int = 0
    memory_mb: int = 0  # 0: not counted


@dataclass(frozen=True)
class Prepared:
    """A valid request with its complete configuration."""

    request: RunRequest
    config: dict[str, Any]  # complete and plain: the content of config.yaml
    resources: Resources
    total_steps: int = 0


class WorkerKind(Protocol):
    """Validates the requests of one kind and names the command that runs them."""

    @property
    def name(self) -> str: ...

    def schema(self) -> dict[str, Any]:
        """Returns the JSON schema of `RunRequest.config`; forms are generated from it."""
        ...

    def prepare(self, request: RunRequest, machine: Resources, runs_root: Path) -> Prepared:
        """Validates the request without running it. Raises `RequestRefused` with all errors."""
        ...

    def command(self, run_directory: Path) -> list[str]:
        """Returns the command that starts or continues the run in a directory with request, config and status."""
        ...


@runtime_checkable
class HasDynamicSchema(Protocol):
    """A kind whose settings depend on other settings: the arguments of a script depend on the script."""

    def schema_of(self, config: dict[str, Any]) -> dict[str, Any]:
        """Returns the JSON schema of `RunRequest.config` for these settings. Raises PalaestraError if there is none."""
        ...


@runtime_checkable
class HasCommandLine(Protocol):
    """A kind with its own shell command; all others are started by `palaestra train KIND key=value`."""

    def command_line(self, request: RunRequest, config: dict[str, Any]) -> list[str]:
        """Returns the arguments of `palaestra`. `config` is that of `Prepared`; empty for an invalid request."""
        ...


@dataclass(frozen=True)
class OfferedScript:
    """A script that a form offers; its source is parsed, not run."""

    path: str  # absolute
    name: str  # relative to its checkout
    algorithm: str
    actions: str  # "discrete", "continuous" or "any"
    missing_packages: tuple[str, ...]  # in the daemon's interpreter


@dataclass(frozen=True)
class Checkout:
    """A directory with scripts, such as a checkout of CleanRL."""

    path: str
    scripts: tuple[OfferedScript, ...]


@runtime_checkable
class OffersScripts(Protocol):
    """A kind that runs scripts and lists known ones."""

    def checkouts(self, runs_root: Path) -> list[Checkout]:
        """Returns the checkouts remembered in this runs directory, newest first."""
        ...

    def add_checkout(self, path: Path, runs_root: Path) -> None:
        """Scans a directory for scripts and remembers it. Raises PalaestraError if it has none."""
        ...
