"""Our own trainer as a kind of worker. A daemon imports this, so torch stays out of it."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from palaestra.config.errors import field_errors_of
from palaestra.config.keys import config_json_schema
from palaestra.config.overrides import format_overrides
from palaestra.config.resolve import build_request
from palaestra.config.train import TrainConfig
from palaestra.core.errors import PalaestraError
from palaestra.core.worker_kind import Prepared, RequestRefused, Resources

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.core.run import RunRequest


class NativeKind:
    name = "native"

    def schema(self) -> dict[str, Any]:
        return config_json_schema(TrainConfig)

    def prepare(self, request: RunRequest, machine: Resources, runs_root: Path) -> Prepared:
        del runs_root
        try:
            made, config = build_request(request.recipe, request.config, name=request.name)
        except PalaestraError as error:
            raise RequestRefused(field_errors_of(error, TrainConfig, "recipe")) from error
        wants_gpu = config.device == "cuda" or (config.device == "auto" and machine.gpus > 0)
        # Environments are stepped and networks are run in turns: the busier of the two says how many cores it takes.
        cores = max(config.torch_threads, 1 + config.env.workers)
        resources = Resources(request.nproc * cores, request.nproc if wants_gpu else 0)
        return Prepared(
            request=replace(request, recipe=made.recipe, config=made.config),
            config=config.model_dump(mode="json"),
            resources=resources,
            total_steps=config.total_steps,
        )

    def command(self, run_directory: Path) -> list[str]:
        return [sys.executable, "-m", "palaestra.runner.worker", str(run_directory)]

    def command_line(self, request: RunRequest, config: dict[str, Any]) -> list[str]:
        del config
        return [
            "train",
            *([request.recipe] if request.recipe else []),
            *([f"run={request.name}"] if request.name else []),
            *format_overrides(request.config),
            *([f"nproc={request.nproc}"] if request.nproc > 1 else []),
            *([f"executor={request.executor}"] if request.executor != "local" else []),
        ]


KIND = NativeKind()
