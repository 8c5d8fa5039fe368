"""Evaluates checkpoints of scripts in the script's own interpreter, with its own classes and environment.

The processes execute the script's source as it was saved with the weights, and what that imports.
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

FAMILIES = "script_families"  # entries of `App`: modules with a FAMILY, see launcher/families.py


class ScriptPolicy:
    def __init__(self, opened: OpenedCheckpoint, directory: RunDirectory) -> None:
        checkpoint = opened.checkpoint
        assert checkpoint.path is not None, "it was found on disk"
        name = model_name(checkpoint.epoch)
        metadata = read_metadata(opened.parts[name], checkpoint.path.with_name(name).name)
        if metadata["sha256"] != checkpoint.policy.get("sha256"):
            raise DamagedFile(
                f"{checkpoint.path}: the SHA-256 of the script saved with the weights differs from the recorded one."
            )
        self._checkpoint = checkpoint
        self._spec = read_launch_spec(directory)
        self._python = find_interpreter(self._spec.python)
        self._weights = checkpoint.path.with_name(name)

    def prepare(self, plan: EvaluationPlan) -> None:
        if plan.env_kwargs or plan.max_episode_steps is not None:
            raise UsageError(
                "The script makes its environment itself; only env.id can be changed.",
                "Leave out env.kwargs and env.max_episode_steps.",
            )

    def pool_evaluator(self, count: int, videos: Path | None) -> PoolEvaluator:
        return ScriptPoolEvaluator(self._start(), count, self._program("play"), self._checkpoint, videos)

    def match_player(self) -> tuple[dict[str, Any], Program]:
        return self._start(), self._program("match")

    def _start(self) -> dict[str, Any]:
        prepare_rendering("rgb_array")  # for videos and live view; child processes inherit the settings
        return {
            "weights": str(self._weights),
            "sha256": weights_of(self._checkpoint),
            "script": self._spec.script,
            "families": families(),
        }

    def _program(self, helper: str) -> Program:
        command = (self._python, str(START_FILE), helper)
        return Program(command, self._spec.environment(), self._spec.run_directory)


class ScriptPoolEvaluator(PoolEvaluator):
    def __init__(
        self, start: dict[str, Any], count: int, program: Program, checkpoint: Checkpoint, videos: Path | None
    ) -> None:
        super().__init__(start, count, program)
        self._checkpoint = checkpoint
        self._videos = videos
        self._frames_folder: tempfile.TemporaryDirectory[str] | None = None  # recorded frames, before they are encoded

    def __enter__(self) -> Self:
        if self._videos is not None:
            self._frames_folder = tempfile.TemporaryDirectory(prefix="palaestra-videos-")
            self._start["video_folder"] = self._frames_folder.name
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._frames_folder is not None:
            self._frames_folder.cleanup()
            self._frames_folder = None

    def parse_episode(self, reply: dict[str, Any]) -> EpisodeResult:
        episode = super().parse_episode(reply)
        if self._videos is not None and "video" in reply:
            video = self._videos / f"{self._checkpoint.epoch}-seed{episode.seed}.mp4"
            make_video(Path(reply["video"]), video, float(reply["frame_rate"]) or DEFAULT_FRAME_RATE)
        return episode


def families() -> list[str]:
    """Paths of plugin modules with families; the script's interpreter loads them, not this one."""
    specs = [find_spec(module.partition(":")[0]) for module in plugins.references(FAMILIES).values()]
    return [spec.origin for spec in specs if spec is not None and spec.origin is not None]
