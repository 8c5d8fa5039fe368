"""Trainings over several machines for the rows of the matrix: started with torchrun, compared with one machine."""

from __future__ import annotations

import hashlib
import re
import time
from typing import TYPE_CHECKING

from palaestra.checkpoints.files import model_name
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.runs.journal import read_journal
from palaestra.runs.store import RunStore
from tests.machines.machines import MachineError, wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.runs.directory import RunDirectory
    from tests.machines.machines import Job, Machine

PORT = 29500
START_SECONDS = 180.0  # until two machines train, on a host that is busy with other things
TRAINING = [
    "cartpole",
    "seed=3",
    "ppo.env_count=2",
    "ppo.horizon=16",
    "ppo.minibatch_size=16",
    "ppo.update_epochs=2",
    "ppo.learning_rate=1e-3",  # constant: the weights of an epoch do not depend on total_steps
    "ppo.clip=0.2",
    "checkpoints.save_interval=1",
    "checkpoints.keep=1000",
    "loggers.tensorboard=false",
    "--quiet",
]
STEPS_PER_EPOCH = 2 * 2 * 16  # ranks, environments, steps


def torchrun(
    machines: Sequence[Machine],
    *arguments: str,
    address: str = "",
    port: int = PORT,
    options: Sequence[str] = (),
    own: dict[str, Sequence[str]] | None = None,
) -> list[Job]:
    """The same command on every machine, as docs/distributed.md says. `own`: words for one machine by its name."""
    jobs = []
    for rank, machine in enumerate(machines):
        location = ["--nnodes", str(len(machines)), "--node-rank", str(rank), "--nproc-per-node", "1"]
        location += ["--master-addr", address or machines[0].address, "--master-port", str(port), *options]
        settings = replace_keys([*TRAINING, "run=pair"], [*arguments, *(own or {}).get(machine.name, ())])
        jobs.append(machine.start(["torchrun", *location, "-m", "palaestra", "train", *settings]))
    return jobs


def elastic_torchrun(machines: Sequence[Machine], *arguments: str) -> list[Job]:
    """Two of the machines train, the others wait to take a place; the first one holds the rendezvous."""
    location = ["--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "3", "--rdzv-backend", "c10d"]
    location += ["--rdzv-id", "pair", "--rdzv-endpoint", f"{machines[0].address}:{PORT}"]
    train = ["-m", "palaestra", "train", *replace_keys([*TRAINING, "run=pair"], arguments)]
    variables = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}  # torch 2.13 keeps the address of the first round otherwise
    return [
        machine.start(["torchrun", *location, "--local-addr", machine.address, *train], variables)
        for machine in machines
    ]


def replace_keys(arguments: Sequence[str], more: Sequence[str]) -> list[str]:
    """`more` wins over what `words` says of the same key."""
    replaced = {word.partition("=")[0] for word in more}
    return [*(word for word in arguments if word.partition("=")[0] not in replaced), *more]


def run_of(machine: Machine, name: str = "pair") -> RunDirectory | None:
    return RunStore(machine.runs).named(name) if machine.runs.exists() else None


def saved_epochs(machine: Machine) -> list[int]:
    """That the leader's journal acknowledged."""
    run = run_of(machine)
    entries = read_journal(run.journal_file) if run is not None and run.journal_file.exists() else []
    return [entry.data["epoch"] for entry in entries if entry.event == "checkpoint.saved"]


def wait_for_epoch(machine: Machine, epoch: int, jobs: Sequence[Job]) -> None:
    def is_there() -> bool:
        if any(job.has_ended and job.wait() != 0 for job in jobs):
            raise MachineError("a command ended early:\n" + "\n".join(job.out + job.err for job in jobs))
        return max(saved_epochs(machine), default=0) >= epoch

    wait_until(is_there, f"checkpoint {epoch}", START_SECONDS)


def weights(machine: Machine) -> dict[int, str]:
    """SHA-256 of the weights of every checkpoint that can be loaded, by epoch."""
    run = run_of(machine)
    assert run is not None, f"{machine.name} has no run"
    found = CheckpointManager(run).survey()
    assert not found.refused, found.refused
    return {
        checkpoint.epoch: hashlib.sha256((run.checkpoints / model_name(checkpoint.epoch)).read_bytes()).hexdigest()
        for checkpoint in found.checkpoints
    }


def lost_checkpoints(machine: Machine) -> int:
    """Acknowledged in the journal, and not there or not whole."""
    return len(set(saved_epochs(machine)) - set(weights(machine)))


def repeated_epochs(machine: Machine) -> int:
    """Checkpoints that the journal acknowledged more than once."""
    epochs = saved_epochs(machine)
    return len(epochs) - len(set(epochs))


def are_equal(machine: Machine, reference: dict[int, str]) -> bool:
    """Every checkpoint is that of one machine, and there are some."""
    own = weights(machine)
    compared = [epoch for epoch in own if epoch in reference]
    return bool(compared) and all(own[epoch] == reference[epoch] for epoch in compared)


def final_digest(machine: Machine, rank: int) -> str:
    """SHA-256 of the weights with which a rank ended, from its own log."""
    logs = sorted(machine.runs.glob(f"*/logs/rank_{rank}.log"))
    found = [digest for log in logs for digest in re.findall(r"weights sha256=(\w+)", log.read_text())]
    assert found, f"rank {rank} wrote no digest on {machine.name}: {[str(log) for log in logs]}"
    return found[-1]


def seconds_until_ended(jobs: Sequence[Job], start: float, limit: float) -> float:
    """From `start` until the last of them ended; all are waited for far longer than the limit, to learn the truth."""
    for job in jobs:
        job.wait(limit + 120)
    return time.monotonic() - start


def message(job: Job) -> str:
    """The last line of ours that the user sees; torchrun's frame and tracebacks are not ours."""
    lines = [line.strip() for line in (job.out + "\n" + job.err).splitlines()]
    ours = [line for line in lines if line.startswith("palaestra: ")]
    return ours[-1].removeprefix("palaestra: ")[:400] if ours else "(no message)"
