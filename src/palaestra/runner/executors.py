"""The executors that Palaestra brings; plain references, so that listing them imports neither torch nor Ray."""

from __future__ import annotations

from palaestra.core.executor import Executor

LOCAL = Executor(
    launch="palaestra.runner.launch:launch",
    trial_slots="palaestra.sweeps.scheduler:LocalSlots",
)
RAY = Executor(
    launch="palaestra.cluster.training.launch:launch_on_ray",
    trial_slots="palaestra.cluster.training.trials:RaySlots",
    remote_evaluator="palaestra.cluster.evaluation.client:open_evaluator",
)
