"""The worker kinds of a daemon, and the shell command of a request."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from palaestra.config.overrides import format_overrides
from palaestra.core import plugins
from palaestra.core.errors import NotFound, did_you_mean
from palaestra.core.worker_kind import HasCommandLine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palaestra.core.run import RunRequest
    from palaestra.core.worker_kind import WorkerKind

GROUP = "workers"


class WorkerKinds:
    """Plugins of `palaestra.workers`, loaded on first use, and kinds passed by the caller, which take precedence."""

    def __init__(self, own: Mapping[str, WorkerKind] | None = None) -> None:
        self._own = dict(own or {})

    def names(self) -> list[str]:
        return sorted({*self._own, *plugins.names(GROUP)})

    def get(self, name: str) -> WorkerKind:
        if name in self._own:
            return self._own[name]
        if name not in self.names():
            hint = did_you_mean(name, self.names()) or f"Known: {', '.join(self.names()) or 'none'}."
            raise NotFound(f"No worker kind named '{name}'.", hint)
        kind: WorkerKind = plugins.load(GROUP, name)
        return kind


def shell_command(kinds: WorkerKinds, request: RunRequest, config: dict[str, Any] | None = None) -> str:
    """Returns the shell command of a request, to run it without a daemon.

    `config` is the complete configuration, if known. Empty for a kind that cannot be started, such as an upload.
    """
    if request.kind not in kinds.names():
        return ""
    kind = kinds.get(request.kind)
    if isinstance(kind, HasCommandLine):
        return shlex.join(["palaestra", *kind.command_line(request, config or {})])
    start = ["train", request.kind] if request.kind in plugins.names(GROUP) else ["submit", f"--kind={request.kind}"]
    name = [f"run={request.name}"] if request.name else []
    return shlex.join(["palaestra", *start, *name, *format_overrides(request.config)])
