"""Real evaluations on a Ray of this machine: how many a second, and what each costs those who hand them out."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import psutil

from palaestra.api import train
from palaestra.checkpoints.loading import load_policy
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.cluster.evaluation.client import RayClient
from palaestra.cluster.evaluation.driver import packed
from palaestra.cluster.evaluation.jobs import EvaluationJob, JobRunner, Status, make_jobs
from palaestra.cluster.evaluation.messages import imported_modules, share_to_json
from palaestra.config.distributed import ClusterConfig
from palaestra.evaluation.session import EvaluationOptions
from palaestra.runs.environment import code_of_process
from scale.workers import EvaluationCosts

if TYPE_CHECKING:
    from palaestra.core.evaluation import SuiteReport

RUN = "many"
DRIVER = "palaestra.cluster.evaluation"
HEAD = ("gcs_server", "raylet")
WARM_UP = 0.25  # share of the evaluations before the clock runs: workers import torch and load policies


@dataclass(frozen=True)
class EvaluationFigure:
    name: str
    workers: int
    episodes: int  # of one evaluation
    evaluations_per_second: float
    cpu: dict[str, float]  # CPU seconds of one evaluation, by process: requester, driver, head
    episode_samples: tuple[float, ...]  # seconds
    sizes: dict[str, int]  # bytes: weights, share, episode


def measure_evaluations(recipe: str, workers: int, checkpoints: int, episodes: int) -> EvaluationFigure:
    """`checkpoints` of one run, each evaluated for `episodes` by `workers` processes of Ray."""
    with TemporaryDirectory() as folder:
        root = Path(folder) / "runs"
        make_checkpoints(recipe, root, checkpoints)
        jobs = make_jobs([f"{RUN}:all"], root, [EvaluationOptions(episodes=episodes, submitted_by="request-eval")])
        return run_jobs(recipe, jobs, workers)


def make_checkpoints(recipe: str, root: Path, count: int) -> None:
    """One training of one update; every further checkpoint has its weights changed a little."""
    import torch

    outcome = train(recipe, run=RUN, runs_root=root, total_steps=1)
    manager, loaded = CheckpointManager(outcome.directory), load_policy(f"{RUN}:latest", root)
    first = loaded.checkpoint
    for number in range(1, count):
        with torch.no_grad():
            for weight in loaded.policy.parameters():
                weight.add_(0.001 * torch.randn_like(weight))
        step = first.agent_step + number
        manager.save(loaded.policy, replace(first, epoch=first.epoch + number, agent_step=step, files={}))


def run_jobs(name: str, jobs: list[EvaluationJob], workers: int) -> EvaluationFigure:
    first = max(1, int(WARM_UP * len(jobs)))
    samples: list[float] = []
    with RayClient(ClusterConfig(cpus=workers)) as evaluator:
        for number, job in enumerate(JobRunner(evaluator).run(jobs), 1):
            if job.status is not Status.DONE or job.report is None:
                raise RuntimeError(f"An evaluation ended as {job.status}: {job.error}")
            samples += [one.seconds / len(one.episodes) for one in job.report.reports]
            if number == first:
                began, before = time.perf_counter(), cpu_seconds()
        seconds, after = time.perf_counter() - began, cpu_seconds()
    timed = len(jobs) - first
    cpu = {part: (after[part] - before[part]) / timed for part in after}
    return EvaluationFigure(
        name, workers, job.episodes, timed / seconds, cpu, tuple(samples), sizes_of(job, job.report)
    )


def cpu_seconds() -> dict[str, float]:
    own = psutil.Process()
    spent = {"requester": sum(own.cpu_times()[:2]), "driver": 0.0, "head": 0.0}
    for child in own.children(recursive=True):
        try:
            command, seconds = " ".join(child.cmdline()[:4]), sum(child.cpu_times()[:2])
        except psutil.Error:
            continue
        if DRIVER in command:
            spent["driver"] += seconds
        elif any(part in command for part in HEAD):
            spent["head"] += seconds
    return spent


def sizes_of(job: EvaluationJob, report: SuiteReport) -> dict[str, int]:
    """Bytes that travel: weights, the description of a share with its sidecar, the result of an episode."""
    path = job.target.checkpoint.path
    assert path is not None, "it was found on disk"
    sidecar, weights, policy = packed(path, job.request.weights)
    code = code_of_process(imported_modules(job.request.plans, policy))
    text = share_to_json(job.request, job.request.plans[0], trust_module=True, code=code)
    episode = json.dumps(asdict(report.reports[0].episodes[0]))
    return {"weights": len(weights), "share": len(text) + len(sidecar), "episode": len(episode)}


def costs_of(alone: EvaluationFigure) -> EvaluationCosts:
    """From one worker, which is never idle: what its time is beyond its episodes is the cost of a task."""
    costs = EvaluationCosts(
        alone.name,
        alone.episodes,
        alone.episode_samples,
        0.0,
        alone.cpu["driver"],
        alone.cpu["requester"],
        alone.cpu["head"],
        alone.sizes["weights"],
        alone.sizes["share"],
        alone.sizes["episode"],
    )
    shares = costs.shares_of(1)
    task = (1 / alone.evaluations_per_second - alone.episodes * costs.episode) / shares
    return replace(costs, task=max(0.0, task), driver=costs.driver / shares, head=costs.head / shares)


def with_episodes_of(costs: EvaluationCosts, heavy: EvaluationFigure, episodes: int) -> EvaluationCosts:
    """The same costs of handing out, for episodes that take longer and weights that are larger."""
    return replace(
        costs,
        name=heavy.name,
        episodes=episodes,
        episode_samples=heavy.episode_samples,
        weights=heavy.sizes["weights"],
        share_bytes=heavy.sizes["share"],
        episode_bytes=heavy.sizes["episode"],
    )
