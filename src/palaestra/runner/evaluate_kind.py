"""The worker kind `evaluate`. The daemon imports this module, so it must not import torch."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from palaestra.checkpoints.durable import committed_epochs
from palaestra.checkpoints.targets import find_target
from palaestra.config.base import Frozen
from palaestra.config.env import EnvConfig
from palaestra.config.errors import field_errors_of
from palaestra.config.keys import config_json_schema
from palaestra.config.overrides import format_overrides
from palaestra.config.resolve import resolve_config
from palaestra.core.errors import NotFound, PalaestraError, UsageError, did_you_mean
from palaestra.core.worker_kind import FieldError, Prepared, RequestRefused, Resources
from palaestra.runs.directory import RunDirectory

if TYPE_CHECKING:
    from palaestra.core.run import RunRequest


class EvaluateConfig(Frozen):
    """The options of `palaestra eval` as settings; null means: as the run has it."""

    target: str = Field(default="", description="what is evaluated: RUN, RUN:best, RUN:latest, RUN:EPOCH or a path")
    suite: str = Field(default="", description="a recipe's name, a plugin's or a FILE.yaml; empty: the run's own")
    episodes: int | None = Field(default=None, ge=1, description="of each simulation")
    seed: int | None = Field(default=None, ge=0, description="of the first episode, the others follow")
    deterministic: bool | None = Field(default=None, description="take the most likely action instead of a sample")
    max_steps: int | None = Field(default=None, ge=1, description="steps after which an episode is stopped")
    repeat: bool = Field(default=False, description="batch after batch, until it is stopped")
    video: bool = Field(default=False, description="record an MP4 of the episodes")
    replays: bool = Field(default=False, description="record each episode for 'palaestra replay'")
    workers: int = Field(default=1, ge=1, description="processes that play; results do not change")
    env: dict[str, Any] = Field(
        default_factory=dict,
        description="settings of the environment other than the checkpoint's: id, kwargs, max_episode_steps",
    )


class EvaluateKind:
    name = "evaluate"

    def schema(self) -> dict[str, Any]:
        return config_json_schema(EvaluateConfig)

    def prepare(self, request: RunRequest, machine: Resources, runs_root: Path) -> Prepared:
        del machine
        complaints, config = [], None
        target = str(request.config.get("target") or "")
        try:
            pinned = pin_target(target, runs_root)
        except PalaestraError as error:
            complaints.append(FieldError("target", error.message, error.hint))
            pinned = target
        try:
            config = resolve_config(EvaluateConfig, None, {**request.config, "target": pinned})
        except PalaestraError as error:
            complaints += field_errors_of(error, EvaluateConfig)
        if config is not None:
            complaints += _unknown_env_settings(config.env)
        if request.nproc != 1:
            complaints.append(
                FieldError("nproc", "An evaluation has no ranks.", "For several processes set 'workers'.")
            )
        if complaints or config is None:
            raise RequestRefused(complaints)
        made = replace(request, recipe=request.recipe or target)
        return Prepared(made, config.model_dump(mode="json"), Resources(config.workers))

    def command(self, run_directory: Path) -> list[str]:
        return [sys.executable, "-m", "palaestra.runner.worker", str(run_directory)]

    def command_line(self, request: RunRequest, config: dict[str, Any]) -> list[str]:
        """`palaestra eval` leaves its results with the run that it evaluates, and so has no name of its own."""
        asked = request.config
        words = ["eval", str(config.get("target") or asked.get("target") or "")]
        for key in ("episodes", "seed", "max_steps", "workers"):
            words += [f"--{key.replace('_', '-')}", str(asked[key])] if asked.get(key) is not None else []
        if asked.get("deterministic") is not None:
            words.append("--deterministic" if asked["deterministic"] else "--stochastic")
        words += [f"--{key}" for key in ("repeat", "video", "replays") if asked.get(key)]
        words += [f"suite={asked['suite']}"] if asked.get("suite") else []  # a name, which is not read as YAML
        return [*words, *format_overrides({"env": asked["env"]} if asked.get("env") else {})]


def _unknown_env_settings(env: dict[str, Any]) -> list[FieldError]:
    known = EnvConfig.model_fields
    return [
        FieldError(
            f"env.{key}",
            f"The environment has no setting '{key}'.",
            did_you_mean(key, known) or f"Known: {', '.join(known)}.",
        )
        for key in env
        if key not in known
    ]


def pin_target(target: str, runs_root: Path) -> str:
    """A target that stays the same: when it is evaluated, `latest` would be the evaluation itself."""
    if not target:
        raise UsageError("An evaluation needs a 'target'.", "For example: target=latest:best")
    found = find_target(target, runs_root)
    if not committed_epochs(found.directory):
        raise NotFound(f"'{target}' has no checkpoint.", "Has it saved one yet?")
    run = RunDirectory(found.directory.parent)
    if isinstance(found.selector, Path) or run.path.parent != runs_root.absolute():
        return target
    return f"{run.id}:{found.selector}"


KIND = EvaluateKind()
