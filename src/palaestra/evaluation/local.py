"""A checkpoint is judged on this machine, and what came of it is written down beside it."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from palaestra.checkpoints.loaded import LoadedPolicy, policy_from
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.checkpoints.targets import FILE_ENDINGS, find_target
from palaestra.contracts.errors import NotFound, PalaestraError, RefusedFile
from palaestra.envs.build import make_playable
from palaestra.evaluation.overrides import apply_overrides, playable_interface
from palaestra.evaluation.plan import make_plan
from palaestra.evaluation.play import play
from palaestra.evaluation.records import write_down
from palaestra.evaluation.replays import Recording, require_recorder
from palaestra.evaluation.video import VideoFile, frame_rate_of
from palaestra.runs.directory import RunDirectory
from palaestra.runs.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from palaestra.contracts.checkpoint import Checkpoint
    from palaestra.contracts.evaluation import EvaluationPlan, EvaluationReport
    from palaestra.evaluation.play import Playable


def evaluate_target(
    target: str,
    runs_root: Path,
    *,
    episodes: int,
    seed: int,
    deterministic: bool,
    video: bool = False,
    replays: bool = False,
    overrides: Mapping[str, Any] | None = None,
    time_limit: float | None = None,
) -> EvaluationReport:
    """Judge `RUN[:best|:latest|:EPOCH]` or a path; environment, network and normalisers come from the checkpoint.

    The score reaches the sidecar only when it is of the environment that the checkpoint was trained in, and complete.
    """
    loaded = load_judged(target, runs_root)
    checkpoint = loaded.checkpoint
    env = apply_overrides(checkpoint.env, overrides or {})
    policy = loaded.policy.playing_in(playable_interface(env, loaded.policy.interface))
    plan = make_plan(
        f"{checkpoint.run}:{checkpoint.epoch}", env, episodes=episodes, seed=seed, deterministic=deterministic
    )
    directory = run_directory_of(checkpoint)
    videos = Path("videos") if directory is None else directory.videos
    recording = Recording(Path("replays") if directory is None else directory.replays, checkpoint, plan)
    if replays:
        require_recorder(env.id)
    with _held(checkpoint, directory), _told(plan, checkpoint, directory), _one_thread():
        report = play(
            plan,
            policy,
            partial(recording.make if replays else make_playable, env, "rgb_array" if video else None),
            record=partial(_film, videos, checkpoint) if video else None,
            time_limit=time_limit,
        )
    if directory is not None:
        write_down(report, checkpoint, directory, overrides=dict(overrides or {}))
        traced: dict[str, Any] = {"checkpoint": plan.checkpoint, "epoch": checkpoint.epoch}
        saved = ({"video.saved": videos} if video else {}) | ({"replay.saved": recording.place} if replays else {})
        for event, place in saved.items():
            Journal(directory).record(event, **traced, file=place.name, episodes=len(report.episodes))
    return report


def load_judged(target: str, runs_root: Path) -> LoadedPolicy:
    """Without a selector the best is meant, or the latest while none was judged."""
    found = find_target(target, runs_root)
    has_selector = ":" in target or target.endswith(FILE_ENDINGS)
    try:
        opened = (found if has_selector else replace(found, selector="best")).open()
    except NotFound:
        if has_selector:
            raise
        opened = found.open()
    if not found.is_own:
        _refuse_foreign_module(str(opened.checkpoint.env.get("id", "")))
    return policy_from(opened, trust_module=found.is_own)


def run_directory_of(checkpoint: Checkpoint) -> RunDirectory | None:
    """The run whose `checkpoints/` the sidecar lies in; None for a file that came without its run."""
    assert checkpoint.path is not None, "a loaded checkpoint knows its sidecar"
    directory = RunDirectory(checkpoint.path.resolve().parent.parent)
    in_run = checkpoint.path.resolve().parent == directory.checkpoints and directory.status_file.is_file()
    return directory if in_run else None


def _film(videos: Path, checkpoint: Checkpoint, seed: int, env: Playable) -> VideoFile:
    videos.mkdir(exist_ok=True)
    return VideoFile(videos / f"{checkpoint.epoch}-seed{seed}.mp4", frame_rate_of(env.metadata))


def _held(checkpoint: Checkpoint, directory: RunDirectory | None) -> AbstractContextManager[None]:
    """While it is judged, retention must not remove it."""
    return nullcontext() if directory is None else CheckpointManager(directory).in_use(checkpoint.epoch)


@contextmanager
def _one_thread() -> Iterator[None]:
    """One row at a time gives a second thread nothing to do but to wait for, and rounding must not depend on it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _told(plan: EvaluationPlan, checkpoint: Checkpoint, directory: RunDirectory | None) -> Iterator[None]:
    """The journal says when an evaluation began, and why when it did not end."""
    if directory is None:
        yield
        return
    journal = Journal(directory)
    traced: dict[str, Any] = {"checkpoint": plan.checkpoint, "epoch": checkpoint.epoch}
    journal.record("eval.started", **traced, episodes=len(plan.seeds), seed=plan.seeds[0], suite=plan.suite)
    try:
        yield
    except PalaestraError as error:
        journal.record("eval.failed", **traced, error=str(error))
        raise


def _refuse_foreign_module(env_id: str) -> None:
    """`module:Env-v0` imports the module, and that runs its code."""
    module, _, _ = env_id.rpartition(":")
    if module and module not in sys.modules:
        raise RefusedFile(
            f"This checkpoint names the environment {env_id}; making it would import '{module}' and run its code.",
            "If you trust it, import the module first, or copy the run into your own runs directory.",
        )
