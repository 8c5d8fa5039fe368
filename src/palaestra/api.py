"""The commands as functions: `palaestra.train("cartpole", total_steps=100_000)`.

Each function imports torch only after its arguments have been checked.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from palaestra.config.overrides import nest
from palaestra.config.resolve import build_request, resolve_config
from palaestra.config.train import TrainConfig
from palaestra.core.errors import DamagedFile
from palaestra.core.executor import LOCAL
from palaestra.core.run import RunRequest
from palaestra.runs.documents import read_config
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore
from palaestra.runs.store import runs_root as default_runs_root

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from palaestra.analysis.report import Analysis
    from palaestra.checkpoints.loading import LoadedPolicy
    from palaestra.cluster.evaluation.jobs import EvaluationJob
    from palaestra.core.evaluation import SuiteReport
    from palaestra.evaluation.episode_video import EpisodeVideo
    from palaestra.runner.job import TrainingJob, TrainOutcome
    from palaestra.sweeps.search import SweepOutcome


def train(
    recipe: str = "",
    *,
    run: str = "",
    resume: bool = False,
    quiet: bool = True,
    nproc: int = 1,
    executor: str = LOCAL,
    runs_root: Path | None = None,
    **settings: Any,
) -> TrainOutcome:
    """Trains, or continues the run named `run`; `ppo={"gamma": 0.9}` and `**{"ppo.gamma": 0.9}` mean the same."""
    from palaestra.runner.job import launcher_of
    from palaestra.runner.launcher import refusals_posted

    with refusals_posted():
        job = prepare_job(
            recipe,
            nest(settings),
            run=run,
            resume=resume,
            quiet=quiet,
            nproc=nproc,
            executor=executor,
            runs_root=runs_root,
            submitted_by="python",
        )
        return launcher_of(job)(job)


def prepare_job(
    recipe: str,
    overrides: Mapping[str, Any],
    *,
    run: str = "",
    resume: bool = False,
    accept_changes: Iterable[str] = (),
    without_replay_buffer: bool = False,
    quiet: bool = False,
    profile: bool = False,
    nproc: int = 1,
    executor: str = LOCAL,
    runs_root: Path | None = None,
    submitted_by: str = "",
    command: str = "",
) -> TrainingJob:
    """Resolves and checks a training. With `nproc` > 1 `executor` starts that many processes, which train together."""
    from palaestra.runner.job import TrainingJob
    from palaestra.training.distributed.rank_info import is_follower

    root = runs_root if runs_root is not None else default_runs_root()
    takes_settings = resume and is_follower(os.environ)  # the run is on the leader's machine, perhaps not on this
    request, config = _prepare(
        root, recipe, overrides, run, submitted_by, command, must_exist=resume and not takes_settings
    )
    return TrainingJob(
        replace(request, executor=executor, nproc=nproc),
        config,
        root,
        resume_only=resume,
        accept_changes=frozenset(accept_changes),
        without_replay_buffer=without_replay_buffer,
        quiet=quiet,
        profile=profile,
        takes_settings=takes_settings,
    )


def _prepare(
    root: Path,
    recipe: str,
    overrides: Mapping[str, Any],
    run: str,
    submitted_by: str,
    command: str,
    *,
    must_exist: bool,
) -> tuple[RunRequest, TrainConfig]:
    """The request and its resolved configuration; for a run that `must_exist`, based on the run's own settings."""
    if must_exist and not recipe:
        return prepare_continuation(root, run or "latest", overrides, submitted_by=submitted_by, command=command)
    name = read_record(RunStore(root).resolve(run or "latest")).name if must_exist else run
    return build_request(recipe, overrides, name=name, submitted_by=submitted_by, command=command)


def sweep(
    recipe: str = "",
    *,
    parameters: Mapping[str, Any],
    name: str = "",
    slots: int | None = None,
    executor: str = LOCAL,
    runs_root: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> SweepOutcome:
    """Trains with many settings: `sweep("cartpole", parameters={"ppo.gamma": [0.98, 0.99]}, metric="return")`.

    `parameters` are lists or ranges as text (`"1e-4..1e-2:log"`), `settings` are the same in all trials, `options` are
    the other options of `palaestra sweep`, such as `trials`. The same call again continues what is not finished.
    """
    from palaestra.config.sweep import SweepConfig
    from palaestra.sweeps.plan import plan_sweep
    from palaestra.sweeps.search import run_sweep

    given = {"name": name, "recipe": recipe, "parameters": dict(parameters), "settings": dict(settings or {})}
    plan = plan_sweep(resolve_config(SweepConfig, None, {**given, **options}))
    return run_sweep(plan, runs_root if runs_root is not None else default_runs_root(), slots=slots, executor=executor)


def prepare_continuation(
    root: Path, run: str, overrides: Mapping[str, Any], *, submitted_by: str = "", command: str = ""
) -> tuple[RunRequest, TrainConfig]:
    """The request and configuration that continue an existing run, based on its own settings."""
    directory = RunStore(root).resolve(run)
    record = read_record(directory)
    try:
        stored = TrainConfig.model_validate(read_config(directory))
    except ValidationError as error:
        raise DamagedFile(f"{directory.config_file} is not a training configuration: {error}.") from error
    request = RunRequest(
        kind=record.kind,
        recipe=record.recipe,
        config=dict(overrides),
        name=record.name,
        submitted_by=submitted_by,
        command=command,
    )
    return request, resolve_config(TrainConfig, stored, overrides)


def evaluate(
    target: str,
    *,
    suite: str = "",
    episodes: int | None = None,
    seed: int | None = None,
    deterministic: bool | None = None,
    max_steps: int | None = None,
    video: bool = False,
    replays: bool = False,
    workers: int = 1,
    runs_root: Path | None = None,
    **settings: Any,
) -> SuiteReport:
    """Evaluates `RUN`, `RUN:best`, `RUN:latest`, `RUN:EPOCH` or the path of a checkpoint, as its run would.

    `suite` is a recipe's name, a plugin's or a FILE.yaml; `env={"max_episode_steps": 100}` changes the environment.
    """
    from palaestra.evaluation.session import evaluate_target

    return evaluate_target(
        target,
        runs_root if runs_root is not None else default_runs_root(),
        suite=suite,
        episodes=episodes,
        seed=seed,
        deterministic=deterministic,
        max_steps=max_steps,
        video=video,
        replays=replays,
        workers=workers,
        overrides=nest(settings),
    )


def request_policy_eval(
    *targets: str,
    suites: Iterable[str] = (),
    episodes: int | None = None,
    seed: int | None = None,
    deterministic: bool | None = None,
    max_steps: int | None = None,
    again: bool = False,
    dry_run: bool = False,
    address: str | None = None,
    runs_root: Path | None = None,
) -> list[EvaluationJob]:
    """Evaluates targets on Ray, each in every suite; `RUN:all` means all checkpoints of a run.

    Recorded and repeated evaluations are not sent unless `again`; `dry_run` only returns what would be sent.
    Without `address` the runs say where the cluster is, else RAY_ADDRESS, else a Ray of our own plays on this machine.
    """
    from palaestra.cluster.evaluation.jobs import make_jobs, request_evaluations
    from palaestra.evaluation.session import EvaluationOptions

    common = EvaluationOptions(
        episodes=episodes, seed=seed, deterministic=deterministic, max_steps=max_steps, submitted_by="request-eval"
    )
    options = [replace(common, suite=suite) for suite in suites] or [common]
    root = runs_root if runs_root is not None else default_runs_root()
    jobs = make_jobs(targets, root, options, again=again)
    if dry_run:
        return jobs
    done = {job.number: job for job in request_evaluations(jobs, {"address": address} if address else {})}
    return [done.get(job.number, job) for job in jobs]


def analyze(
    *targets: str,
    metrics: Iterable[str] = (),
    weights: bool = True,
    html: Path | None = None,
    runs_root: Path | None = None,
) -> Analysis:
    """Compares evaluations and learning curves: `analyze("a", "b").scores.groups[0].iqm`; `html` is overwritten."""
    from palaestra.analysis.report import analyze_targets
    from palaestra.analysis.targets import find_targets

    found = find_targets(targets, runs_root)
    analysis = analyze_targets(found, tuple(metrics))
    if weights:
        from palaestra.analysis.weights import with_weights

        analysis = with_weights(analysis, found)
    if html is not None:
        from palaestra.analysis.html_report import write_page

        write_page(analysis, html)
    return analysis


def film(
    target: str,
    *,
    episodes: int | None = None,
    grid: int = 1,
    seed: int | None = None,
    deterministic: bool | None = None,
    frame_rate: float | None = None,
    out: Path | None = None,
    runs_root: Path | None = None,
    **settings: Any,
) -> EpisodeVideo:
    """Records episodes as an MP4, `grid` of them side by side; by default among the videos of the run."""
    from palaestra.evaluation.episode_video import VideoOptions, make_video

    options = VideoOptions(episodes, grid, seed, deterministic, frame_rate, out, nest(settings))
    return make_video(target, runs_root if runs_root is not None else default_runs_root(), options)


def load_policy(target: str | Path, runs_root: Path | None = None, *, trust_module: bool = False) -> LoadedPolicy:
    """`load_policy("runs/x:best").act(observation)`; see `palaestra.checkpoints.loading` for `trust_module`."""
    from palaestra.checkpoints import loading

    return loading.load_policy(target, runs_root, trust_module=trust_module)
