"""Kinds of workers: what can be asked of the daemon, and how it is made into a process.

A kind is a plugin of the group `palaestra.workers`: a module-level object that satisfies `WorkerKind`. The daemon loads
it, so its module must not import torch; what it starts may.
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
class Complaint:
    """One thing that is wrong with a request."""

    key: str  # where: "ppo.gamma", "name"; empty when it is about the whole
    message: str
    hint: str = ""
    exit_code: int = UsageError.exit_code  # of the error that it stands for

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class RequestRefused(UsageError):
    """A request that cannot be; every complaint is told at once."""

    def __init__(self, complaints: Sequence[Complaint]) -> None:
        self.complaints = tuple(complaints)
        codes = {complaint.exit_code for complaint in self.complaints}
        self.exit_code = codes.pop() if len(codes) == 1 else UsageError.exit_code
        if len(self.complaints) == 1:
            super().__init__(self.complaints[0].message, self.complaints[0].hint)
            return
        lines = "\n".join(f"  - {complaint}" for complaint in self.complaints)
        super().__init__(f"{len(self.complaints)} things cannot be:\n{lines}")


@dataclass(frozen=True)
class Resources:
    """What a run takes of this machine while it runs, or what the machine has in all."""

    cpus: int = 1
    gpus: int = 0
    memory_mb: int = 0  # 0: not counted


@dataclass(frozen=True)
class Prepared:
    """A request that is known to be right, and what was made of it."""

    request: RunRequest
    config: dict[str, Any]  # complete, plain data: what config.yaml will say
    resources: Resources
    total_steps: int = 0


class WorkerKind(Protocol):
    """How requests of one kind are checked and carried out."""

    @property
    def name(self) -> str: ...

    def schema(self) -> dict[str, Any]:
        """The JSON schema of `RunRequest.config`; forms are made from it."""
        ...

    def prepare(self, request: RunRequest, machine: Resources, runs_root: Path) -> Prepared:
        """Check everything that can be checked without running it; `RequestRefused` names all that is wrong."""
        ...

    def command(self, run_directory: Path) -> list[str]:
        """What to start on a directory that holds request, config and status; also to continue such a run."""
        ...


@runtime_checkable
class TellsSchema(Protocol):
    """A kind with more settings once it knows some of them: a script that is named has arguments of its own."""

    def schema_of(self, config: dict[str, Any]) -> dict[str, Any]:
        """The JSON schema of `RunRequest.config`, with what is known of it; PalaestraError says why there is none."""
        ...


@runtime_checkable
class HasCommandLine(Protocol):
    """A kind with a shell command of its own; all others are started by `palaestra train KIND key=value`."""

    def command_line(self, request: RunRequest, config: dict[str, Any]) -> list[str]:
        """The words after `palaestra`. `config` is what `prepare` made of the request; empty when it was refused."""
        ...


@dataclass(frozen=True)
class OfferedScript:
    """A script that a form offers, told by its text alone."""

    path: str  # absolute
    name: str  # relative to its checkout
    algorithm: str
    actions: str  # "discrete", "continuous" or "any"
    lacks: tuple[str, ...]  # packages that the daemon's interpreter does not have


@dataclass(frozen=True)
class Checkout:
    path: str
    scripts: tuple[OfferedScript, ...]


@runtime_checkable
class OffersScripts(Protocol):
    """A kind that runs scripts and knows where some are."""

    def checkouts(self, runs_root: Path) -> list[Checkout]:
        """Those that are remembered in this folder of runs, the newest first."""
        ...

    def add_checkout(self, path: Path, runs_root: Path) -> None:
        """Look for scripts there and remember it; PalaestraError says why there are none."""
        ...
