"""A Ray cluster over machines for the rows of the matrix: head, workers, and what an evaluation or a sweep left."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.machines.machines import MachineError, wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.machines.machines import Job, Machine

RAY_START_SECONDS = 240.0  # of a node, on a host that is busy with other things
RAY_PORT = 6379


def head_address(head: Machine) -> str:
    return f"{head.address}:{RAY_PORT}"


def start_head(head: Machine, cpus: int = 0) -> Job:
    """`palaestra worker --head`; returns when it says that others may join."""
    job = head.start(["palaestra", "worker", "--head", "--host", head.address, "--cpus", str(cpus)])
    wait_for_text(job, head_address(head))
    return job


def copy_token(head: Machine, *machines: Machine) -> None:
    """As docs/cluster.md says: the same file on every machine."""
    token = (head.home / ".ray" / "auth_token").read_bytes()
    for machine in machines:
        file = machine.home / ".ray" / "auth_token"
        file.parent.mkdir(mode=0o700, exist_ok=True)
        file.touch(mode=0o600)
        file.write_bytes(token)


def start_worker(machine: Machine, head: Machine, cpus: int = 1) -> Job:
    return machine.start(["palaestra", "worker", "--address", head_address(head), "--cpus", str(cpus)])


def wait_for_text(job: Job, *texts: str, seconds: float = RAY_START_SECONDS) -> float:
    """Until the command printed one of the texts."""

    def is_there() -> bool:
        printed = job.out + job.err
        if any(text in printed for text in texts):
            return True
        if job.has_ended:
            raise MachineError(f"ended with {job.wait()}: {' '.join(job.command)}\n{printed[-3000:]}")
        return False

    return wait_until(is_there, f"{texts} in the output of {' '.join(job.command)}", seconds)


def start_cluster(head: Machine, workers: Sequence[Machine], cpus: int = 1) -> list[Job]:
    """A head that offers nothing, and workers; all of them joined."""
    jobs = [start_head(head)]
    copy_token(head, *workers)
    joining = [start_worker(machine, head, cpus) for machine in workers]
    for job in joining:
        wait_for_text(job, head_address(head))
    return [*jobs, *joining]


def episodes(run: Path) -> list[tuple[Any, ...]]:
    """Every episode of every evaluation of a run: epoch, weights, simulation and the row itself, without its place."""
    found = []
    for file in (run / "evaluations").glob("*.json"):
        entry = json.loads(file.read_text())
        subject = (entry["epoch"], entry["weights"], entry["plan"]["suite"], entry["plan"]["simulation"])
        columns = ("seed", "total_reward", "length", "terminated")
        found += [(*subject, *(row[column] for column in columns)) for row in entry["rows"]]
    return sorted(found)
