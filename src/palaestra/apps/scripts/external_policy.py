"""A script's checkpoint in an evaluation: its own interpreter plays it, with its own classes and its own environment.

What is executed is the source that was saved with the weights, in processes of their own, and what that imports.
"""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from palaestra.apps.scripts.checkpoints import read_metadata
from palaestra.apps.scripts.launch import START_FILE, read_launch_spec
from palaestra.apps.scripts.packages import find_interpreter
from palaestra.apps.scripts.videos import make_video
from palaestra.checkpoints.files import model_name
from palaestra.core import plugins
from palaestra.core.errors import DamagedFile, UsageError
from palaestra.evaluation.plans import weights_of
from palaestra.evaluation.pool import PoolEvaluator, Program
from palaestra.evaluation.video import DEFAULT_FRAME_RATE
from palaestra.rendering.offscreen import prepare_rendering

if TYPE_CHECKING:
    from types import TracebackType

    from palaestra.checkpoints.selection import OpenedCheckpoint
    from palaestra.core.checkpoint import Checkpoint
    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.evaluation import EvaluationPlan
    from palaestra.runs.directory import RunDirectory

FAMILIES = "script_families"  # parts of apps: modules with a FAMILY, see launcher/families.py


class ScriptPolicy:
    def __init__(self, opened: OpenedCheckpoint, directory: RunDirectory) -> None:
        checkpoint = opened.checkpoint
        assert checkpoint.path is not None, "it was found on disk"
        name = model_name(checkpoint.epoch)
        metadata = read_metadata(opened.parts[name], checkpoint.path.with_name(name).name)
        if metadata["sha256"] != checkpoint.policy.get("sha256"):
            raise DamagedFile(f"{checkpoint.path}: the script beside the weights is not the one that it names.")
        self._checkpoint = checkpoint
        self._order = read_launch_spec(directory)
        self._python = find_interpreter(self._order.python)
        self._weights = checkpoint.path.with_name(name)

    def prepare(self, plan: EvaluationPlan) -> None:
        if plan.env_kwargs or plan.max_episode_steps is not None:
            raise UsageError(
                "The environment of a script is made by the script; only env.id can be changed.",
                "Leave out env.kwargs and env.max_episode_steps.",
            )

    def pool_evaluator(self, count: int, videos: Path | None) -> PoolEvaluator:
        return ScriptPoolEvaluator(self._start(), count, self._program("play"), self._checkpoint, videos)

    def match_player(self) -> tuple[dict[str, Any], Program]:
        return self._start(), self._program("match")

    def _start(self) -> dict[str, Any]:
        prepare_rendering("rgb_array")  # for whoever films or watches; the processes inherit it
        return {
            "weights": str(self._weights),
            "sha256": weights_of(self._checkpoint),
            "script": self._order.script,
            "families": families(),
        }

    def _program(self, helper: str) -> Program:
        command = (self._python, str(START_FILE), helper)
        return Program(command, self._order.environment(), self._order.run_directory)


class ScriptPoolEvaluator(PoolEvaluator):
    def __init__(
        self, start: dict[str, Any], count: int, program: Program, checkpoint: Checkpoint, videos: Path | None
    ) -> None:
        super().__init__(start, count, program)
        self._checkpoint = checkpoint
        self._videos = videos
        self._aside: tempfile.TemporaryDirectory[str] | None = None  # for pictures that are no film yet

    def __enter__(self) -> Self:
        if self._videos is not None:
            self._aside = tempfile.TemporaryDirectory(prefix="palaestra-films-")
            self._start["films"] = self._aside.name
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._aside is not None:
            self._aside.cleanup()
            self._aside = None

    def parse_episode(self, answer: dict[str, Any]) -> EpisodeResult:
        episode = super().parse_episode(answer)
        if self._videos is not None and "film" in answer:
            film = self._videos / f"{self._checkpoint.epoch}-seed{episode.seed}.mp4"
            make_video(Path(answer["film"]), film, float(answer["rate"]) or DEFAULT_FRAME_RATE)
        return episode


def families() -> list[str]:
    """Files of plugins that know how further networks act; they are loaded by the script's interpreter, not by ours."""
    specs = [find_spec(module.partition(":")[0]) for module in plugins.references(FAMILIES).values()]
    return [spec.origin for spec in specs if spec is not None and spec.origin is not None]
