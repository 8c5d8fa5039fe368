"""Episodes of a policy as one video: one after another, or several side by side."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium

from palaestra.core.errors import RunFailed, UsageError
from palaestra.envs.build import make_playable
from palaestra.evaluation.local import LocalEvaluator, one_thread
from palaestra.evaluation.plans import env_of, make_plan
from palaestra.evaluation.play import play_batch_episode, play_episode, step_limit
from palaestra.evaluation.suites import apply_overrides
from palaestra.evaluation.targets import load_policy_target
from palaestra.evaluation.video import FrameSpool, Mosaic, VideoFile, dim, frame_rate_of, mosaic_for
from palaestra.runs.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.evaluation import EvaluationPlan
    from palaestra.evaluation.targets import LoadedTarget
    from palaestra.evaluation.video import Frame

DEFAULT_EPISODES = 3
LARGEST_GRID = 64  # tiles; more are too small to see
HOLD_SECONDS = 0.7  # for which the last frame of an episode is shown
MAX_FRAME_RATE = 240.0  # frames per second


@dataclass(frozen=True)
class VideoOptions:
    """What to record; None means: as the checkpoint, its run and its environment have it."""

    episodes: int | None = None
    grid: int = 1  # episodes side by side
    seed: int | None = None
    deterministic: bool | None = None
    frame_rate: float | None = None
    out: Path | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        if not 1 <= self.grid <= LARGEST_GRID:
            raise UsageError(f"Invalid value for grid: {self.grid} (must be from 1 to {LARGEST_GRID}).")
        if self.frame_rate is not None and not 0 < self.frame_rate <= MAX_FRAME_RATE:
            raise UsageError(
                f"Invalid frame rate: {self.frame_rate:g} (must be above 0 and at most {MAX_FRAME_RATE:g})."
            )
        if self.out is not None and self.out.suffix != ".mp4":
            raise UsageError(f"{self.out} does not end in .mp4.", f"For example: {self.out.stem or 'video'}.mp4")
        if self.out is not None and not self.out.absolute().parent.is_dir():
            raise UsageError(f"{self.out.absolute().parent} is not a directory.", "Create it, or choose another path.")


@dataclass(frozen=True)
class EpisodeVideo:
    """A video file and what it shows."""

    path: Path
    checkpoint: str
    episodes: tuple[EpisodeResult, ...]  # in the order of their tiles
    frames: int
    frame_rate: float
    height: int
    width: int


def make_video(
    target: str,
    runs_root: Path,
    options: VideoOptions | None = None,
    on_episode: Callable[[EpisodeResult], None] = lambda _episode: None,
) -> EpisodeVideo:
    """Plays episodes as an evaluation does, so that a seed shows the episode that was evaluated, and records them."""
    options = options or VideoOptions()
    options.check()
    found = load_policy_target(target, runs_root)
    plan = _plan(found, options)
    with found.in_use(), one_thread():
        video = _VideoMaker(found, plan, options, on_episode).make()
    if found.directory is not None:
        inside = video.path.resolve().is_relative_to(found.directory.path)
        path = video.path.resolve().relative_to(found.directory.path) if inside else video.path.absolute()
        Journal(found.directory).record(
            "video.saved", **found.journal_fields(), file=str(path), episodes=len(video.episodes)
        )
    return video


def _plan(target: LoadedTarget, options: VideoOptions) -> EvaluationPlan:
    episodes = options.episodes if options.episodes is not None else max(DEFAULT_EPISODES, options.grid)
    settings = target.settings
    return make_plan(
        target.name,
        apply_overrides(target.checkpoint.env, options.overrides),
        episodes=episodes,
        seed=settings.seed if options.seed is None else options.seed,
        deterministic=settings.deterministic if options.deterministic is None else options.deterministic,
        max_steps=settings.max_steps,
    )


class _VideoMaker:
    def __init__(
        self,
        target: LoadedTarget,
        plan: EvaluationPlan,
        options: VideoOptions,
        on_episode: Callable[[EpisodeResult], None],
    ) -> None:
        self._target = target
        self._plan = plan
        self._tiles = min(options.grid, len(plan.seeds))
        self._agent = LocalEvaluator(target.loaded).prepare(plan)
        self._on_episode = on_episode
        self._rate = options.frame_rate or self._env_frame_rate()
        self._path = options.out or self._default_path()
        self._mosaic: Mosaic | None = None  # known from the first frame on

    def make(self) -> EpisodeVideo:
        episodes: list[EpisodeResult] = []
        seeds = self._plan.seeds
        pages = [seeds[start : start + self._tiles] for start in range(0, len(seeds), self._tiles)]
        with ExitStack() as stack:
            video: VideoFile | None = None
            for page in pages:
                with ExitStack() as page_stack:
                    spools = [page_stack.enter_context(FrameSpool()) for _ in page]
                    for seed, spool in zip(page, spools, strict=True):
                        episodes.append(self._play(seed, spool))
                        self._on_episode(episodes[-1])
                    if video is None:
                        video = stack.enter_context(self._open())
                    self._show(spools, video)
        assert video is not None, "a plan has an episode"
        assert self._mosaic is not None, "an episode has a frame"
        height, width = self._mosaic.compose([]).shape[:2]
        return EpisodeVideo(
            self._path, self._plan.checkpoint, tuple(episodes), video.frame_count, self._rate, height, width
        )

    def _play(self, seed: int, spool: FrameSpool) -> EpisodeResult:
        env = make_playable(env_of(self._plan), "rgb_array")

        def store(frame: Frame) -> None:
            if self._mosaic is None:
                self._mosaic = mosaic_for(self._tiles, frame)
            try:
                spool.add(self._mosaic.fit(frame))
            except OSError as error:
                raise RunFailed(f"The frames of seed {seed} could not be stored: {error.strerror}.") from error

        try:
            settings: dict[str, Any] = {
                "deterministic": self._plan.deterministic,
                "on_frame": store,
                "max_steps": step_limit(self._plan, env),
            }
            if isinstance(env, gymnasium.Env):
                return play_episode(self._agent, env, seed, **settings)
            return play_batch_episode(self._agent, env, seed, **settings)
        finally:
            env.close()

    def _env_frame_rate(self) -> float:
        env = make_playable(env_of(self._plan), "rgb_array")
        try:
            return frame_rate_of(env.metadata)
        finally:
            env.close()

    def _show(self, spools: Sequence[FrameSpool], video: VideoFile) -> None:
        assert self._mosaic is not None, "an episode was played"
        last: Frame | None = None
        for tiles in _side_by_side(spools):
            last = self._mosaic.compose(tiles)
            video.add(last)
        assert last is not None, "an episode has a frame"
        for _ in range(max(1, round(HOLD_SECONDS * self._rate))):
            video.add(last)

    def _open(self) -> VideoFile:
        self._path.parent.mkdir(exist_ok=True)
        checkpoint, seeds = self._target.checkpoint, self._plan.seeds
        comment = f"checkpoint {self._plan.checkpoint}, seeds {seeds[0]} to {seeds[-1]}, {self._plan.env_id}"
        return TracedVideo(self._path, self._rate, title=f"{checkpoint.run_name}:{checkpoint.epoch}", comment=comment)

    def _default_path(self) -> Path:
        folder = Path("videos") if self._target.directory is None else self._target.directory.videos
        seeds = self._plan.seeds
        grid = f"-grid{self._tiles}" if self._tiles > 1 else ""
        return folder / f"{self._target.checkpoint.epoch}-seeds{seeds[0]}to{seeds[-1]}{grid}.mp4"


class TracedVideo(VideoFile):
    """A video whose metadata name the checkpoint, so that a copy can be traced."""

    def __init__(self, path: Path, frame_rate: float, **about: str) -> None:
        super().__init__(path, frame_rate)
        self._container.metadata.update(about)


def _side_by_side(spools: Sequence[FrameSpool]) -> Iterator[list[Frame]]:
    """The next frame of each episode; one that has ended keeps its last frame, dimmed."""
    current: list[Frame] = []
    has_ended = [False] * len(spools)
    for frames in zip_longest(*(spool.frames() for spool in spools)):
        if not current:
            current = list(frames)
        for index, frame in enumerate(frames):
            if frame is not None:
                current[index] = frame
            elif not has_ended[index]:
                current[index], has_ended[index] = dim(current[index]), True
        yield current
