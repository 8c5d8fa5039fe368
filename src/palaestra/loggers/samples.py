"""The one place where a report becomes named metrics. Names are CleanRL's, so that curves overlay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.core.episodes import EpisodeColumns, episode_lengths, episode_returns
from palaestra.core.metrics_logger import Sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.core.episodes import EpisodeResult
    from palaestra.core.evaluation import SuiteReport
    from palaestra.core.reports import IterationReport

EPISODIC_RETURN = "charts/episodic_return"
EPISODIC_LENGTH = "charts/episodic_length"
LEARNING_RATE = "charts/learning_rate"
EPSILON = "charts/epsilon"
REPLAY_TRANSITIONS = "replay/transitions"
STEPS_PER_SECOND = "charts/SPS"
EVALUATED_RETURN = "eval/episodic_return"
EVALUATED_LENGTH = "eval/episodic_length"
EPISODE = "episode"  # group of the means of episodes' further figures, in training
EVALUATION = "eval"  # and in evaluations
MIN, MAX = "min", "max"  # groups for the extremes of an interval in loggers without ranges
OTHER_SECONDS = "time/other"
TASKS_COMPLETED = "tasks/completed"
TASKS_PER_SECOND = "charts/tasks_per_second"


def task_metric(name: str, figure: str) -> str:
    """`easy` for `tasks/easy/share` when `figure` is `share`; empty for every other metric."""
    group, _, rest = name.partition("/")
    task, _, last = rest.rpartition("/")
    return task if group == "tasks" and last == figure else ""


def sample_of(report: IterationReport, steps_per_second: float, at: float) -> Sample:
    """`at` is wall time, for showing. Metrics that did not happen (no episode ended) are absent, not zero."""
    return Sample(
        step=report.env_steps,
        metrics={
            **_means_of_extras(report.episodes, EPISODE),
            **_episode_means(report.episodes, EPISODIC_RETURN, EPISODIC_LENGTH),
            **report.update.metrics(),
            **report.metrics,
        },
        timings={
            STEPS_PER_SECOND: steps_per_second,
            "time/rollout": report.times.rollout,
            "time/learn": report.times.learn,
            OTHER_SECONDS: report.times.other,
        },
        episodes=report.episodes,
        at=at,
        iteration=report.iteration,
    )


def all_values(sample: Sample) -> dict[str, float]:
    """Every number of a sample by its name, with the extremes where it stands for an interval."""
    lows, highs = min_max_values(sample)
    return {**sample.metrics, **sample.timings, **lows, **highs}


def min_max_values(sample: Sample) -> tuple[dict[str, float], dict[str, float]]:
    """`min/losses/entropy`, … and `max/losses/entropy`, … of an interval; of single iterations there are none."""
    found: dict[str, tuple[float, float]] = {}
    if sample.interval is not None:
        ranges = sample.interval.ranges
        found = {name: (low, high) for name, (low, high, count, _) in ranges.items() if count}
    summary = sample.episode_summary
    if summary is not None:
        found[EPISODIC_RETURN] = (summary.return_min, summary.return_max)
        found[EPISODIC_LENGTH] = (summary.length_min, summary.length_max)
    lows = {f"{MIN}/{name}": low for name, (low, _) in found.items()}
    return lows, {f"{MAX}/{name}": high for name, (_, high) in found.items()}


def evaluation_sample_of(report: SuiteReport, step: int, at: float) -> Sample:
    """An evaluation as a sample of its own, at the step of the checkpoint that was judged.

    `eval/episodic_return` is the score, whatever the suite; of several simulations each has names of its own as well.
    """
    own = {one.plan.simulation: one.episodes for one in report.reports}
    means = [_episode_means(episodes, EVALUATED_RETURN, EVALUATED_LENGTH) for episodes in own.values()]
    metrics = {name: sum(mean[name] for mean in means) / len(means) for name in (EVALUATED_RETURN, EVALUATED_LENGTH)}
    if len(own) == 1:
        metrics = {**_means_of_extras(report.episodes, EVALUATION), **metrics}
    else:
        for simulation, episodes in own.items():
            metrics |= _simulation_metrics(f"{EVALUATION}/{simulation}", episodes)
    return Sample(step=step, metrics=metrics, timings={"time/evaluation": report.seconds}, at=at)


def _simulation_metrics(group: str, episodes: Sequence[EpisodeResult]) -> dict[str, float]:
    means = _episode_means(episodes, f"{group}/episodic_return", f"{group}/episodic_length")
    return {**_means_of_extras(episodes, group), **means}


def _episode_means(episodes: Sequence[EpisodeResult], return_name: str, length_name: str) -> dict[str, float]:
    if not episodes:
        return {}
    return {
        return_name: sum(episode_returns(episodes)) / len(episodes),
        length_name: sum(episode_lengths(episodes)) / len(episodes),
    }


def _means_of_extras(episodes: Sequence[EpisodeResult], group: str) -> dict[str, float]:
    """Of each figure over the episodes that have it; Arena's `heart` becomes `episode/heart`."""
    if isinstance(episodes, EpisodeColumns):  # which have none
        return {}
    gathered: dict[str, list[float]] = {}
    for episode in episodes:
        for name, value in episode.extras.items():
            gathered.setdefault(name, []).append(value)
    return {f"{group}/{name}": sum(values) / len(values) for name, values in gathered.items()}
