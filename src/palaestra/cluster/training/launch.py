"""`executor=ray`: the ranks of one training, placed by Ray on its machines; otherwise as `--nproc` on one.

Rank 0's machine is where the run lives: in the driver's folder of runs where it sees that, else in a scratch directory
of its actor, from which the driver keeps a copy (`run_mirror`).
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.cluster.address import configured_address
from palaestra.cluster.connection import open_ray
from palaestra.cluster.training.rank_actor import ActorSite, RankActor, RunUpload
from palaestra.cluster.training.rank_setup import (
    different_code,
    forwarded_variables,
    marker_file,
    modules_of,
    upload_for,
)
from palaestra.cluster.training.remote_rank import RemoteRank, end_actors, first_line
from palaestra.cluster.training.run_mirror import RunMirror, free_name
from palaestra.core.errors import UsageError
from palaestra.runner.launch import GRACE_SECONDS, IN_ORDER, RanksFailed, outcome_of, progress_of, with_restarts
from palaestra.runner.rank_checks import accepts_different_ranks
from palaestra.runner.ranks import RankSpec, forwarded_signals
from palaestra.training.distributed.rank_info import read_rank_info

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from palaestra.cluster.connection import RaySession
    from palaestra.runner.job import TrainingJob, TrainOutcome

PLACE_SECONDS = 60.0  # others may be about to leave
BEGIN_SECONDS = 120.0  # an actor's process starts, and imports torch
POLL_SECONDS = 0.1


def launch_on_ray(job: TrainingJob, count: int) -> TrainOutcome:
    """Trains with `count` processes, which Ray places on its machines. Raises the error of the first that failed.

    With `distributed.restarts` they are placed again, and continue from the last checkpoint that the driver has.
    """
    if read_rank_info(os.environ) is not None:
        raise UsageError(
            f"executor=ray was asked for, but RANK={os.environ.get('RANK')} says that others start the ranks.",
            "Under torchrun leave executor= out; alone, unset RANK.",
        )
    job = replace(job, runs_root=job.runs_root.absolute())
    cluster = job.config.cluster
    with open_ray(configured_address(cluster.address), cpus=cluster.cpus, is_checked=False) as session:
        with_gpu = wants_gpu(job.config.device, session.gpus, count)
        require_resources(session, count, with_gpu=with_gpu)
        return with_restarts(lambda job: _launch_once(session, job, count, with_gpu=with_gpu), job)


def _launch_once(session: RaySession, job: TrainingJob, count: int, *, with_gpu: bool) -> TrainOutcome:
    with _started_ranks(session, job, count, with_gpu=with_gpu) as ranks, forwarded_signals(ranks) as came:
        _wait(ranks)
    try:
        return outcome_of(job, ranks, [rank.exit_report for rank in ranks], came, ranks[0].pid)
    except RanksFailed as error:
        if ranks[0].mirror is not None and ranks[0].mirror.directory is not None:
            error.progress = progress_of(ranks[0].mirror.directory)
        raise


def wants_gpu(device: str, gpus: float, count: int) -> bool:
    """`auto` uses GPUs if there is one for every rank."""
    return device == "cuda" or (device == "auto" and gpus >= count)


def require_resources(session: RaySession, count: int, *, with_gpu: bool) -> None:
    """Refuses resources that the cluster does not have; Ray would wait for them for ever."""
    found = {"CPU": session.cpus, "GPU": session.gpus}
    for kind in ("CPU", "GPU") if with_gpu else ("CPU",):
        if found[kind] < count:
            hint = f"Give it more machines with 'palaestra worker --address {session.address}', or ask for fewer."
            if session.is_embedded:
                hint = "Ask for fewer, name a cluster with cluster.address=HOST:PORT, or say cluster.cpus=MORE."
            raise UsageError(
                f"nproc={count} needs {count} {kind}s, one for each, and the cluster has {found[kind]:g}.", hint
            )


@contextmanager
def _started_ranks(session: RaySession, job: TrainingJob, count: int, *, with_gpu: bool) -> Iterator[list[RemoteRank]]:
    """Starts all ranks; none of them is alive after the block, whatever happens in it."""
    ray = session.ray
    bundle = {"CPU": 1, "GPU": 1} if with_gpu else {"CPU": 1}
    group = ray.util.placement_group([bundle] * count, strategy="PACK")
    actors: list[Any] = []
    ranks: list[RemoteRank] = []
    try:
        if not group.wait(timeout_seconds=PLACE_SECONDS):
            free = ray.available_resources()
            raise UsageError(
                f"nproc={count} needs {count} free CPUs, and the cluster had {free.get('CPU', 0):g} of its "
                f"{session.cpus:g} free for {PLACE_SECONDS:.0f} s.",
                "Try again when others are done, or ask for fewer.",
            )
        actors += [_actor(ray, group, bundle, number) for number in range(count)]
        _start(session, group, actors, job, ranks, with_gpu=with_gpu)
        yield ranks
    finally:
        end_actors(ray, actors)
        ray.util.remove_placement_group(group)
        if ranks and ranks[0].mirror is not None:
            ranks[0].mirror.close()


def _actor(ray: Any, group: Any, bundle: Mapping[str, int], number: int) -> Any:
    strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(group, number)
    made = ray.remote(RankActor).options(
        num_cpus=bundle["CPU"], num_gpus=bundle.get("GPU", 0), scheduling_strategy=strategy, max_restarts=0
    )
    return made.remote(number)


def _start(
    session: RaySession, group: Any, actors: list[Any], job: TrainingJob, ranks: list[RemoteRank], *, with_gpu: bool
) -> None:
    """Adds each rank to `ranks` before it starts, so that it is cleaned up after an error."""
    ray = session.ray
    try:
        sites = _sites(ray, group, actors, job)
        if not accepts_different_ranks(job.config):
            _require_same_code(ray, actors, sites, job)
        mirror = None
        if not sites[0].sees_runs:
            job = replace(job, request=replace(job.request, name=job.request.name or free_name(job.runs_root)))
            mirror = RunMirror(job.runs_root, job.request.name)
        timeout = None if session.is_embedded else job.config.cluster.node_timeout
        for number, actor in enumerate(actors):
            own = mirror if number == 0 else None
            host, root = sites[number].host, job.runs_root
            ranks.append(RemoteRank(ray, actor, number, host, mirror=own, node_timeout=timeout, runs_root=root))
        port = ray.get(actors[0].listen.remote(sites[0].address), timeout=BEGIN_SECONDS)
        _start_processes(ray, actors, sites, job, port, ranks, with_gpu=with_gpu)
    except ray.exceptions.RayError as error:
        raise _not_started(job, first_line(error)) from error


def _start_processes(
    ray: Any,
    actors: list[Any],
    sites: list[ActorSite],
    job: TrainingJob,
    port: int,
    ranks: list[RemoteRank],
    *,
    with_gpu: bool,
) -> None:
    address = sites[0].address.strip("[]")
    begun = []
    for rank, actor, site, local in zip(ranks, actors, sites, local_numbers(sites), strict=True):
        spec = RankSpec(rank.number, len(actors), 0 if with_gpu else local, address, port)
        delivery = None if site.sees_runs else _delivery(job, rank)
        begun.append(actor.start.remote(asdict(spec), job.to_json(), forwarded_variables(), str(Path.cwd()), delivery))
    for rank, there in zip(ranks, ray.get(begun, timeout=BEGIN_SECONDS), strict=True):
        rank.there = there if rank.mirror is not None else ""


def _delivery(job: TrainingJob, rank: RemoteRank) -> RunUpload:
    """Followers learn from the leader, through the group, where the run stands; they get what its settings name."""
    return upload_for(job.config, job.runs_root, rank.mirror)


def _not_started(job: TrainingJob, reason: str) -> RanksFailed:
    error = RanksFailed(f"Ray could not start the ranks: {reason}", "Is every machine of the cluster well?")
    directory = RunMirror.find(job.runs_root, job.request.name)
    error.progress = None if directory is None else progress_of(directory)
    return error


def _sites(ray: Any, group: Any, actors: list[Any], job: TrainingJob) -> list[ActorSite]:
    """Where each rank is, and whether the folder of runs is seen from there: a file that is made in it proves it."""
    addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
    by_bundle = ray.util.placement_group_table(group)["bundles_to_node_id"]
    modules = modules_of(job.config)
    with marker_file(job.runs_root) as marker:
        sites: list[ActorSite] = ray.get(
            [
                actor.site.remote(by_bundle[number], addresses[by_bundle[number]], str(job.runs_root), marker, modules)
                for number, actor in enumerate(actors)
            ],
            timeout=BEGIN_SECONDS,
        )
    return sites


def _require_same_code(ray: Any, actors: list[Any], sites: list[ActorSite], job: TrainingJob) -> None:
    modules = modules_of(job.config)
    found = {
        f"{site.host} ({site.address}): {text}"
        for actor, site in zip(actors, sites, strict=True)
        if (text := different_code(ray, actor, site, modules, BEGIN_SECONDS))
    }
    if found:
        raise UsageError(
            f"The code of these machines differs from the code here. {'; '.join(sorted(found))}.",
            "Install the same code on every machine, or accept it with distributed.allow_different_code=true.",
        )


def local_numbers(sites: list[ActorSite]) -> list[int]:
    """Each rank's number among those of its machine."""
    return [[site.node for site in sites[:number]].count(sites[number].node) for number in range(len(sites))]


def _wait(ranks: list[RemoteRank]) -> None:
    """Waits until all have ended. When one fails, the others get a moment to notice it themselves."""
    deadline = float("inf")
    while True:
        for rank in ranks:
            rank.poll()
        alive = [rank for rank in ranks if rank.code is None]
        if not alive:
            return
        failed = any(rank.code is not None and rank.code not in IN_ORDER for rank in ranks)
        if failed and deadline == float("inf"):
            deadline = time.monotonic() + GRACE_SECONDS
        if time.monotonic() > deadline:
            for rank in alive:
                rank.kill()
        time.sleep(POLL_SECONDS)
