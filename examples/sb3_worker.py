"""Stable-Baselines3 as a kind of worker: form, queue, metrics, episodes, log and stop as for Palaestra's own trainer.

In a package of yours: `[project.entry-points."palaestra.workers"]` with `sb3 = "sb3_worker:KIND"` in pyproject.toml;
then `palaestra train sb3 algorithm=A2C`, the daemon and the page know it.
Here, without one: python examples/sb3_worker.py env_id=CartPole-v1 total_timesteps=5000
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from palaestra.config.base import Frozen
from palaestra.config.errors import field_errors_of
from palaestra.config.keys import config_json_schema
from palaestra.config.overrides import parse_overrides
from palaestra.config.resolve import resolve_config
from palaestra.core.clock import SystemClock
from palaestra.core.episodes import EpisodeResult
from palaestra.core.errors import PalaestraError
from palaestra.core.metrics_logger import Sample
from palaestra.core.run import RunRequest
from palaestra.core.worker_kind import Prepared, RequestRefused, Resources
from palaestra.runner.session import RunSession
from palaestra.runner.signals import StopRequest, exit_code_of, stop_on_signals
from palaestra.runs.directory import RunDirectory
from palaestra.runs.documents import read_config
from palaestra.runs.lock import run_lock
from palaestra.runs.metrics.writer import MetricsWriter
from palaestra.runs.store import RunStore


class Sb3Config(Frozen):
    algorithm: Literal["A2C", "DDPG", "DQN", "PPO", "SAC", "TD3"] = Field("PPO", description="of Stable-Baselines3")
    env_id: str = Field("CartPole-v1", description="any Gymnasium id")
    total_timesteps: int = Field(10_000, ge=1, description="steps to take")
    seed: int = Field(0, ge=0, description="of everything that is drawn")


class Sb3Kind:
    """A daemon loads this, so torch and Stable-Baselines3 wait until there is work."""

    name = "sb3"

    def schema(self) -> dict[str, Any]:
        return config_json_schema(Sb3Config)

    def prepare(self, request: RunRequest, machine: Resources, runs_root: Path) -> Prepared:
        try:
            config = resolve_config(Sb3Config, None, request.config)
        except PalaestraError as error:
            raise RequestRefused(field_errors_of(error, Sb3Config)) from error
        return Prepared(request, config.model_dump(mode="json"), Resources(1), config.total_timesteps)

    def command(self, run_directory: Path) -> list[str]:
        return [sys.executable, str(Path(__file__).resolve()), str(run_directory)]


KIND = Sb3Kind()


def work(directory: RunDirectory) -> int:
    config = Sb3Config.model_validate(read_config(directory))
    with run_lock(directory), stop_on_signals() as stop:
        session = RunSession(directory, config.total_timesteps, SystemClock())
        session.journal.record("run.started", pid=os.getpid(), seed=config.seed, total_steps=config.total_timesteps)
        try:
            with MetricsWriter(directory.metrics_file) as metrics:
                metrics.rewind(-1)  # a run that is started again begins at its first step
                algorithm = getattr(import_module("stable_baselines3"), config.algorithm)
                model = algorithm("MlpPolicy", config.env_id, seed=config.seed, device="cpu")
                model.learn(config.total_timesteps, callback=listener(session, metrics, stop))
                model.save(directory.artifacts / "model.zip")
        except BaseException as error:
            session.failed(error, 1)
            raise
        if stop.signal is None:
            session.finished()
            return 0
        session.cancelled(signal.Signals(stop.signal).name, exit_code_of(stop.signal))
        return exit_code_of(stop.signal)


def listener(session: RunSession, metrics: MetricsWriter, stop: StopRequest):
    """A function as a callback of Stable-Baselines3: after every step, with everything that its loop knows."""

    def after_step(known: dict[str, Any], _: dict[str, Any]) -> bool:
        step, infos = known["self"].num_timesteps, enumerate(known["infos"])
        ended = [(index, info, info["episode"]) for index, info in infos if "episode" in info]
        episodes = tuple(
            EpisodeResult(None, float(one["r"]), int(one["l"]), not info.get("TimeLimit.truncated"), index, step)
            for index, info, one in ended
        )
        if episodes:
            learned = {name: float(value) for name, value in known["self"].logger.name_to_value.items()}
            learned["charts/episodic_return"] = episodes[-1].total_reward
            metrics.write(Sample(step, learned, episodes=episodes, at=SystemClock().now()))
        session.heartbeat(0, step, step / max(session.seconds, 1e-9), {})
        return not stop

    return after_step


if __name__ == "__main__":
    if len(sys.argv) == 2 and RunDirectory(Path(sys.argv[1])).status_file.is_file():
        sys.exit(work(RunDirectory(Path(sys.argv[1]))))
    store = RunStore()
    made = KIND.prepare(RunRequest("sb3", "", parse_overrides(sys.argv[1:])), Resources(1), store.root)
    run = store.create(made.request, made.config, total_steps=made.total_steps)
    subprocess.run(KIND.command(run.path), check=True)
    print(f"palaestra runs show {run.id}")
