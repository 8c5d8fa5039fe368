"""The worker kind `matmul`: searches that a daemon runs."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.apps.matmul.config import DiscoverConfig
from palaestra.apps.matmul.schemes.scheme_files import SUFFIXES
from palaestra.config.errors import field_errors_of
from palaestra.config.keys import config_json_schema
from palaestra.config.overrides import format_overrides
from palaestra.config.resolve import resolve_config
from palaestra.core.errors import PalaestraError
from palaestra.core.worker_kind import FieldError, Prepared, RequestRefused, Resources

if TYPE_CHECKING:
    from palaestra.core.run import RunRequest


class MatmulKind:
    name = "matmul"

    def schema(self) -> dict[str, Any]:
        return config_json_schema(DiscoverConfig)

    def prepare(self, request: RunRequest, machine: Resources, runs_root: Path) -> Prepared:
        del machine, runs_root
        complaints, config = [], None
        try:
            config = resolve_config(DiscoverConfig, None, request.config)
        except PalaestraError as error:
            complaints += field_errors_of(error, DiscoverConfig)
        if request.nproc != 1 or request.executor != "local":
            complaints.append(FieldError("nproc", "A search has one process.", "For several threads set 'walkers'."))
        if config is not None and Path(config.start).suffix in SUFFIXES:
            hint = "Import it first: palaestra discoveries import FILE; then name the discovery."
            complaints.append(FieldError("start", "A daemon reads no scheme files.", hint))
        if complaints or config is None:
            raise RequestRefused(complaints)
        made = replace(request, recipe=request.recipe or f"discover {config.format}")
        return Prepared(made, config.model_dump(mode="json"), Resources(config.walkers))

    def command(self, run_directory: Path) -> list[str]:
        return [sys.executable, "-m", "palaestra.apps.matmul.worker", str(run_directory)]

    def command_line(self, request: RunRequest, config: dict[str, Any]) -> list[str]:
        """The equivalent command: the format first, without a key."""
        default = DiscoverConfig.model_fields["format"].default
        settings = {key: value for key, value in request.config.items() if key != "format"}
        return [
            "discover",
            str(request.config.get("format") or config.get("format") or default),
            *([f"run={request.name}"] if request.name else []),
            *format_overrides(settings),
        ]


KIND = MatmulKind()
