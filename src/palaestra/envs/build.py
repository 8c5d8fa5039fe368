"""Chooses how environments are stepped: as a native batch, by worker processes, or one by one in this process.

A native batch has its own seeding. All other ways give the same numbers.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import UsageError
from palaestra.envs.make import AnyEnv, find_creator, find_spec, make_env, refuse_unknown_render_mode
from palaestra.envs.tasks import TaskSwitch, make_task_env
from palaestra.envs.vector.batch import BatchEnvs, NativeBatch, OffersBatch
from palaestra.envs.vector.in_process import InProcessEnvs, VectorEnvs
from palaestra.envs.vector.mujoco_batch import MujocoEnvs, why_not_batched
from palaestra.envs.vector.published import PublishedEnvs
from palaestra.envs.vector.workers import WorkerEnvs

if TYPE_CHECKING:
    from palaestra.config.env import CurriculumConfig, EnvConfig
    from palaestra.envs.tasks import TaskSource


logger = logging.getLogger(__name__)


def make_vector_envs(
    env: EnvConfig, curriculum: CurriculumConfig, count: int, tasks: TaskSource | None = None
) -> VectorEnvs:
    """`count` rows to train in. Raises UsageError for environments or tasks that do not fit."""
    if offers_batch(env):
        return _batch_envs(env, curriculum, count, tasks)
    workers = min(env.workers, count - 1)  # this process steps a share too, and every process steps at least one
    if env.workers > workers:
        logger.warning("%d environments keep %d workers busy, not %d (env.workers).", count, workers, env.workers)
    reason = ""
    if env.stepping == "mujoco" or (workers and env.stepping == "auto" and _is_of_mujoco(env)):
        reason = _why_not_mujoco(env, curriculum)
        if not reason:
            return _log_stepping(MujocoEnvs(lambda: make_env(env), count, workers + 1), env)
        if env.stepping == "mujoco":
            raise UsageError(f"'{env.id}' cannot be stepped as a MuJoCo batch: {reason}.", "Set env.stepping=auto.")
    if workers:
        worker_envs = WorkerEnvs(env.model_copy(update={"workers": workers}), curriculum, count, tasks)
        worker_envs.why_no_batch = reason
        return _log_stepping(worker_envs, env)
    envs = InProcessEnvs(lambda: make_task_env(env, curriculum), count, tasks)
    first = envs.envs[0]
    if isinstance(first, TaskSwitch):
        first.make_all()  # refuses tasks that do not fit; the other environments make them when needed
    return envs


def describe_stepping(envs: VectorEnvs) -> str:
    """How the environments are stepped, in a few words, and why MuJoCo's are not stepped as a batch."""
    match envs:
        case WorkerEnvs():
            but = f"; not as a MuJoCo batch, because {envs.why_no_batch}" if envs.why_no_batch else ""
            return f"by {len(envs.workers)} worker processes and the one that trains{but}"
        case PublishedEnvs():
            return describe_stepping(envs.inner)
        case MujocoEnvs():
            return f"as a MuJoCo batch on {envs.threads} threads"
        case BatchEnvs():
            return "as a batch of their own"
        case _:
            return "one after the other in the process that trains"


def _log_stepping(envs: VectorEnvs, env: EnvConfig) -> VectorEnvs:
    logger.info("%d copies of %s are stepped %s.", envs.count, env.id, describe_stepping(envs))
    return envs


def _is_of_mujoco(env: EnvConfig) -> bool:
    creator: Any = find_creator(find_spec(env.id))
    return str(getattr(creator, "__module__", "")).startswith("gymnasium.envs.mujoco.")


def _why_not_mujoco(env: EnvConfig, curriculum: CurriculumConfig) -> str:
    return "it has several tasks" if curriculum.tasks else why_not_batched(lambda: make_env(env))


def make_playable(env: EnvConfig, render_mode: str | None = None) -> AnyEnv | NativeBatch:
    """The environment of one evaluated episode: a batch of one world with all its players, or a plain environment."""
    if not offers_batch(env):
        return make_env(env, render_mode)
    spec = find_spec(env.id)
    refuse_unknown_render_mode(spec, find_creator(spec), render_mode)
    return make_native_batch(env, 1)


def offers_batch(env: EnvConfig) -> bool:
    """Whether the environment is a native batch. An id that is registered with wrappers is stepped one by one."""
    spec = find_spec(env.id)
    return not spec.additional_wrappers and isinstance(find_creator(spec), OffersBatch)


def make_native_batch(env: EnvConfig, world_count: int, curriculum: CurriculumConfig | None = None) -> NativeBatch:
    spec = find_spec(env.id)
    creator: Any = find_creator(spec)
    variations = [task.kwargs for task in curriculum.tasks.values()] if curriculum and curriculum.tasks else [{}]
    settings: dict[str, Any] = {**spec.kwargs, **env.kwargs}
    settings.pop("render_mode", None)  # for a single environment; a batch is rendered world by world
    time_limit = env.max_episode_steps or spec.max_episode_steps
    every_task = [{**settings, **variation} for variation in variations]
    batch: NativeBatch = creator.native_batch(world_count, every_task, time_limit)
    return batch


def _batch_envs(env: EnvConfig, curriculum: CurriculumConfig, count: int, tasks: TaskSource | None) -> BatchEnvs:
    if curriculum.tasks and curriculum.given_by == "options":
        raise UsageError(
            f"'{env.id}' is stepped as a batch, which takes tasks by their kwargs.", "Set curriculum.given_by=kwargs."
        )
    one_world = make_native_batch(env, 1)
    agents = one_world.agents
    one_world.close()
    _require_whole_worlds(env, count, agents)
    batch = make_native_batch(env, count // agents, curriculum)
    return BatchEnvs(batch, tasks, list(curriculum.tasks))


def _require_whole_worlds(env: EnvConfig, count: int, agents: int) -> None:
    if count % agents == 0:
        return
    below = count // agents * agents
    near = [str(size) for size in (below, below + agents) if size]
    raise UsageError(
        f"ppo.env_count={count} is not a multiple of the {agents} agents of one world of '{env.id}'.",
        f"Try ppo.env_count={' or ppo.env_count='.join(near)}.",
    )
