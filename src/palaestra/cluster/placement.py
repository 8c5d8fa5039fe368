"""`executor=ray`: the ranks of one training, placed by Ray on its machines; otherwise as `--nproc` on one."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.cluster.address import asked_address
from palaestra.cluster.connection import open_ray
from palaestra.cluster.placed import PlacedRank
from palaestra.cluster.rank import RankActor, Site
from palaestra.cluster.witness import witness
from palaestra.contracts.errors import RunFailed, UsageError
from palaestra.training.place import read_place
from palaestra.workers.launch import GRACE_SECONDS, IN_ORDER, outcome_of
from palaestra.workers.ranks import Seat, forwarded_signals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from palaestra.cluster.connection import RaySession
    from palaestra.workers.job import Job
    from palaestra.workers.outcome import TrainOutcome

PLACE_SECONDS = 60.0  # others may be about to leave
BEGIN_SECONDS = 120.0  # an actor's process starts, and imports torch
LOOK_SECONDS = 0.1
FORWARDED = ("PALAESTRA_", "OMP_", "MKL_", "TORCH_", "NCCL_", "GLOO_", "MUJOCO_", "PYTHONHASHSEED", "NO_COLOR")


def launch_on_ray(job: Job, count: int) -> TrainOutcome:
    """Train with `count` processes wherever Ray has room. Raises what the first of them failed with."""
    if read_place(os.environ) is not None:
        raise UsageError(
            f"executor=ray was asked for, but RANK={os.environ.get('RANK')} says that others start the ranks.",
            "Under torchrun leave executor= out; alone, unset RANK.",
        )
    job = replace(job, runs_root=job.runs_root.absolute())
    cluster = job.config.cluster
    with open_ray(asked_address(cluster.address), cpus=cluster.cpus) as session:
        with_gpu = wants_gpu(job.config.device, session.gpus, count)
        demand_room(session, count, with_gpu=with_gpu)
        with _placed(session, job, count, with_gpu=with_gpu) as ranks, forwarded_signals(ranks) as came:
            _wait(ranks)
        return outcome_of(job, ranks, [rank.account for rank in ranks], came, ranks[0].pid)


def wants_gpu(device: str, gpus: float, count: int) -> bool:
    """`auto` takes GPUs where there is one for every rank."""
    return device == "cuda" or (device == "auto" and gpus >= count)


def demand_room(session: RaySession, count: int, *, with_gpu: bool) -> None:
    """Ray would wait for ever for what the cluster does not have."""
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
def _placed(session: RaySession, job: Job, count: int, *, with_gpu: bool) -> Iterator[list[PlacedRank]]:
    """All ranks, started; whatever happens in the block, none of them is alive after it."""
    ray = session.ray
    bundle = {"CPU": 1, "GPU": 1} if with_gpu else {"CPU": 1}
    group = ray.util.placement_group([bundle] * count, strategy="PACK")
    actors: list[Any] = []
    try:
        if not group.wait(timeout_seconds=PLACE_SECONDS):
            free = ray.available_resources()
            raise UsageError(
                f"nproc={count} needs {count} free CPUs, and the cluster had {free.get('CPU', 0):g} of its "
                f"{session.cpus:g} free for {PLACE_SECONDS:.0f} s.",
                "Try again when others are done, or ask for fewer.",
            )
        actors += [_actor(ray, group, bundle, number) for number in range(count)]
        yield _started(ray, group, actors, job, with_gpu=with_gpu)
    finally:
        for actor in actors:
            ray.kill(actor)
        ray.util.remove_placement_group(group)


def _actor(ray: Any, group: Any, bundle: Mapping[str, int], number: int) -> Any:
    strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(group, number)
    made = ray.remote(RankActor).options(
        num_cpus=bundle["CPU"], num_gpus=bundle.get("GPU", 0), scheduling_strategy=strategy, max_restarts=0
    )
    return made.remote(number)


def _started(ray: Any, group: Any, actors: list[Any], job: Job, *, with_gpu: bool) -> list[PlacedRank]:
    try:
        sites = _sites(ray, group, actors, job.runs_root)
        port = ray.get(actors[0].listen.remote(sites[0].address), timeout=BEGIN_SECONDS)
        variables = {name: value for name, value in os.environ.items() if name.startswith(FORWARDED)}
        begun = []
        for number, (actor, local) in enumerate(zip(actors, local_numbers(sites), strict=True)):
            seat = Seat(number, len(actors), 0 if with_gpu else local, sites[0].address, port)
            begun.append(actor.start.remote(asdict(seat), job.to_json(), variables, str(Path.cwd())))
        ray.get(begun, timeout=BEGIN_SECONDS)
    except ray.exceptions.RayError as error:
        last = str(error).strip().rpartition("\n")[2]
        raise RunFailed(f"Ray could not start the ranks: {last}", "Is every machine of the cluster well?") from error
    return [PlacedRank(ray, actor, number, sites[number].host) for number, actor in enumerate(actors)]


def _sites(ray: Any, group: Any, actors: list[Any], runs_root: Path) -> list[Site]:
    """Where each rank is; the run's directory must be seen from there, and a file that is made here proves it."""
    addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
    by_bundle = ray.util.placement_group_table(group)["bundles_to_node_id"]
    with witness(runs_root) as name:
        sites: list[Site] = ray.get(
            [
                actor.site.remote(by_bundle[number], addresses[by_bundle[number]], str(runs_root), name)
                for number, actor in enumerate(actors)
            ],
            timeout=BEGIN_SECONDS,
        )
    blind = sorted({f"{site.host} ({site.address})" for site in sites if not site.sees_runs})
    if blind:
        raise UsageError(
            f"The folder of runs, {runs_root}, is not seen from {', '.join(blind)}.",
            "Put it on a disk that all machines share, at the same path: PALAESTRA_RUNS_DIR=/shared/runs.",
        )
    return sites


def local_numbers(sites: list[Site]) -> list[int]:
    """Each rank's number among those of its machine."""
    return [[site.node for site in sites[:number]].count(sites[number].node) for number in range(len(sites))]


def _wait(ranks: list[PlacedRank]) -> None:
    """Until all have ended. When one fails, the others get a moment to notice it themselves."""
    deadline = float("inf")
    while True:
        for rank in ranks:
            rank.look()
        alive = [rank for rank in ranks if rank.code is None]
        if not alive:
            return
        failed = any(rank.code is not None and rank.code not in IN_ORDER for rank in ranks)
        if failed and deadline == float("inf"):
            deadline = time.monotonic() + GRACE_SECONDS
        if time.monotonic() > deadline:
            for rank in alive:
                rank.kill()
        time.sleep(LOOK_SECONDS)
