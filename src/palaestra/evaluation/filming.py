"""Episodes of a policy as one film: one after another, or several side by side in step with each other."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium

from palaestra.core.errors import RunFailed, UsageError
from palaestra.envs.build import make_playable
from palaestra.evaluation.judged import load_judged
from palaestra.evaluation.mosaic import Mosaic, dim, mosaic_for
from palaestra.evaluation.overrides import apply_overrides
from palaestra.evaluation.plan import env_of, make_plan
from palaestra.evaluation.play import play_episode, step_limit
from palaestra.evaluation.player import Player, one_thread
from palaestra.evaluation.spool import Spool
from palaestra.evaluation.video import VideoFile, frame_rate_of
from palaestra.evaluation.world import play_world
from palaestra.runs.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.evaluation import EvaluationPlan
    from palaestra.evaluation.judged import Judged
    from palaestra.evaluation.mosaic import Picture

USUAL_EPISODES = 3
LARGEST_GRID = 64  # tiles; more are too small to see anything
HOLD_SECONDS = 0.7  # that the end stands still, before others begin
FASTEST = 240.0  # pictures per second


@dataclass(frozen=True)
class FilmOrder:
    """None means: as the checkpoint, its run and its environment have it."""

    episodes: int | None = None
    grid: int = 1  # episodes side by side
    seed: int | None = None
    deterministic: bool | None = None
    frame_rate: float | None = None
    out: Path | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        if not 1 <= self.grid <= LARGEST_GRID:
            raise UsageError(f"{self.grid} episodes side by side cannot be shown.", f"Choose 1 to {LARGEST_GRID}.")
        if self.frame_rate is not None and not 0 < self.frame_rate <= FASTEST:
            raise UsageError(f"{self.frame_rate:g} pictures per second cannot be shown.", f"At most {FASTEST:g} can.")
        if self.out is not None and self.out.suffix != ".mp4":
            raise UsageError(f"{self.out} does not end in .mp4.", f"For example: {self.out.stem or 'film'}.mp4")
        if self.out is not None and not self.out.absolute().parent.is_dir():
            raise UsageError(f"{self.out.absolute().parent} is not a directory.", "Make it first, or choose another.")


@dataclass(frozen=True)
class Film:
    path: Path
    checkpoint: str
    episodes: tuple[EpisodeResult, ...]  # in the order of their tiles
    pictures: int
    frame_rate: float
    height: int
    width: int


def make_film(
    target: str,
    runs_root: Path,
    order: FilmOrder | None = None,
    on_episode: Callable[[EpisodeResult], None] = lambda _episode: None,
) -> Film:
    """Episodes are played as an evaluation plays them: the same seed shows what was judged."""
    asked = order or FilmOrder()
    asked.check()
    judged = load_judged(target, runs_root)
    plan = _plan(judged, asked)
    with judged.held(), one_thread():
        film = _Filming(judged, plan, asked, on_episode).make()
    if judged.directory is not None:
        inside = film.path.resolve().is_relative_to(judged.directory.path)
        place = film.path.resolve().relative_to(judged.directory.path) if inside else film.path.absolute()
        traced: dict[str, Any] = {"checkpoint": judged.name, "epoch": judged.checkpoint.epoch}
        Journal(judged.directory).record("video.saved", **traced, file=str(place), episodes=len(film.episodes))
    return film


def _plan(judged: Judged, asked: FilmOrder) -> EvaluationPlan:
    episodes = asked.episodes if asked.episodes is not None else max(USUAL_EPISODES, asked.grid)
    settings = judged.settings
    return make_plan(
        judged.name,
        apply_overrides(judged.checkpoint.env, asked.overrides),
        episodes=episodes,
        seed=settings.seed if asked.seed is None else asked.seed,
        deterministic=settings.deterministic if asked.deterministic is None else asked.deterministic,
        max_steps=settings.max_steps,
    )


class _Filming:
    def __init__(
        self, judged: Judged, plan: EvaluationPlan, asked: FilmOrder, on_episode: Callable[[EpisodeResult], None]
    ) -> None:
        self._judged = judged
        self._plan = plan
        self._tiles = min(asked.grid, len(plan.seeds))
        self._agent = Player(judged.loaded).prepare(plan)
        self._on_episode = on_episode
        self._rate = asked.frame_rate or self._own_rate()
        self._path = asked.out or self._usual_path()
        self._mosaic: Mosaic | None = None  # known from the first picture on

    def make(self) -> Film:
        episodes: list[EpisodeResult] = []
        seeds = self._plan.seeds
        pages = [seeds[start : start + self._tiles] for start in range(0, len(seeds), self._tiles)]
        with ExitStack() as stack:
            video: VideoFile | None = None
            for page in pages:
                with ExitStack() as aside:
                    spools = [aside.enter_context(Spool()) for _ in page]
                    for seed, spool in zip(page, spools, strict=True):
                        episodes.append(self._play(seed, spool))
                        self._on_episode(episodes[-1])
                    if video is None:
                        video = stack.enter_context(self._open())
                    self._show(spools, video)
        assert video is not None, "a plan has an episode"
        assert self._mosaic is not None, "an episode has a picture"
        height, width = self._mosaic.compose([]).shape[:2]
        return Film(self._path, self._plan.checkpoint, tuple(episodes), video.frame_count, self._rate, height, width)

    def _play(self, seed: int, spool: Spool) -> EpisodeResult:
        env = make_playable(env_of(self._plan), "rgb_array")

        def take(picture: Picture) -> None:
            if self._mosaic is None:
                self._mosaic = mosaic_for(self._tiles, picture)
            try:
                spool.add(self._mosaic.fit(picture))
            except OSError as error:
                raise RunFailed(f"The pictures of seed {seed} could not be put aside: {error.strerror}.") from error

        try:
            how: dict[str, Any] = {
                "deterministic": self._plan.deterministic,
                "on_frame": take,
                "max_steps": step_limit(self._plan, env),
            }
            if isinstance(env, gymnasium.Env):
                return play_episode(self._agent, env, seed, **how)
            return play_world(self._agent, env, seed, **how)
        finally:
            env.close()

    def _own_rate(self) -> float:
        env = make_playable(env_of(self._plan), "rgb_array")
        try:
            return frame_rate_of(env.metadata)
        finally:
            env.close()

    def _show(self, spools: Sequence[Spool], video: VideoFile) -> None:
        assert self._mosaic is not None, "an episode was played"
        last: Picture | None = None
        for tiles in _in_step(spools):
            last = self._mosaic.compose(tiles)
            video.add(last)
        assert last is not None, "an episode has a picture"
        for _ in range(max(1, round(HOLD_SECONDS * self._rate))):
            video.add(last)

    def _open(self) -> VideoFile:
        self._path.parent.mkdir(exist_ok=True)
        checkpoint, seeds = self._judged.checkpoint, self._plan.seeds
        comment = f"checkpoint {self._plan.checkpoint}, seeds {seeds[0]} to {seeds[-1]}, {self._plan.env_id}"
        return TracedVideo(self._path, self._rate, title=f"{checkpoint.run_name}:{checkpoint.epoch}", comment=comment)

    def _usual_path(self) -> Path:
        place = Path("videos") if self._judged.directory is None else self._judged.directory.videos
        seeds = self._plan.seeds
        grid = f"-grid{self._tiles}" if self._tiles > 1 else ""
        return place / f"{self._judged.checkpoint.epoch}-seeds{seeds[0]}to{seeds[-1]}{grid}.mp4"


class TracedVideo(VideoFile):
    """Says in its own bytes which checkpoint it shows, so that a copy of it can be traced, too."""

    def __init__(self, path: Path, frame_rate: float, **about: str) -> None:
        super().__init__(path, frame_rate)
        self._container.metadata.update(about)


def _in_step(spools: Sequence[Spool]) -> Iterator[list[Picture]]:
    """One picture of each at a time; an episode that has ended keeps its last one, dimmed."""
    kept: list[Picture] = []
    over = [False] * len(spools)
    for pictures in zip_longest(*(spool.pictures() for spool in spools)):
        if not kept:
            kept = list(pictures)
        for index, picture in enumerate(pictures):
            if picture is not None:
                kept[index] = picture
            elif not over[index]:
                kept[index], over[index] = dim(kept[index]), True
        yield kept
