"""Which kinds of workers there are: plugins, or those that somebody hands in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.core import plugins
from palaestra.core.errors import NotFound, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palaestra.core.worker_kind import WorkerKind

GROUP = "workers"


class Kinds:
    """Plugins of `palaestra.workers`, loaded when first asked for; those handed in go before."""

    def __init__(self, own: Mapping[str, WorkerKind] | None = None) -> None:
        self._own = dict(own or {})

    def names(self) -> list[str]:
        return sorted({*self._own, *plugins.names(GROUP)})

    def get(self, name: str) -> WorkerKind:
        if name in self._own:
            return self._own[name]
        if name not in self.names():
            hint = did_you_mean(name, self.names()) or f"Known: {', '.join(self.names()) or 'none'}."
            raise NotFound(f"No kind of worker is called '{name}'.", hint)
        kind: WorkerKind = plugins.load(GROUP, name)
        return kind
