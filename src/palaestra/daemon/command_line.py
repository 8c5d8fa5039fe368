"""The shell command that does the same as a request, for whoever wants to repeat a run without a daemon."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from palaestra.config.overrides import format_overrides
from palaestra.core import plugins
from palaestra.core.worker_kind import HasCommandLine
from palaestra.daemon.kinds import GROUP

if TYPE_CHECKING:
    from palaestra.core.run import RunRequest
    from palaestra.daemon.kinds import Kinds


def shell_command(kinds: Kinds, request: RunRequest, config: dict[str, Any] | None = None) -> str:
    """`config` is the complete configuration, where it is known. Empty for a kind that nobody can start, such as an
    uploaded checkpoint."""
    if request.kind not in kinds.names():
        return ""
    kind = kinds.get(request.kind)
    if isinstance(kind, HasCommandLine):
        return shlex.join(["palaestra", *kind.command_line(request, config or {})])
    start = ["train", request.kind] if request.kind in plugins.names(GROUP) else ["submit", f"--kind={request.kind}"]
    name = [f"run={request.name}"] if request.name else []
    return shlex.join(["palaestra", *start, *name, *format_overrides(request.config)])
