"""The machines of a cluster, and whether Palaestra on each of them is the one that is here."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from palaestra.contracts.errors import UsageError

ANSWER_SECONDS = 60.0  # a machine's first task starts a Python process there


@dataclass(frozen=True)
class Node:
    id: str
    address: str
    cpus: float
    gpus: float


def nodes(ray: Any) -> list[Node]:
    """Those that are alive, the head among them."""
    return [
        Node(node["NodeID"], node["NodeManagerAddress"], resources.get("CPU", 0.0), resources.get("GPU", 0.0))
        for node in ray.nodes()
        if node["Alive"]
        for resources in [node["Resources"]]
    ]


def describe() -> tuple[str, str]:
    """Runs on a machine of the cluster: its name and its version of Palaestra."""
    return socket.gethostname(), version("palaestra")


def sees(folder: str, witness: str) -> tuple[str, bool]:
    """Runs on a machine of the cluster: does it see the file `witness` that the driver has just made in `folder`?"""
    return socket.gethostname(), (Path(folder) / witness).is_file()


def ask_each(ray: Any, question: Any, *words: str) -> list[Any]:
    """`question(*words)` asked on every machine; in the order of `nodes`. It takes no CPU of anybody's."""
    by_node = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    task = ray.remote(question)
    asked = [
        (node.address, task.options(num_cpus=0, scheduling_strategy=by_node(node.id, soft=False)).remote(*words))
        for node in nodes(ray)
    ]
    answers = []
    for machine, reference in asked:
        try:
            answers.append(ray.get(reference, timeout=ANSWER_SECONDS))
        except ray.exceptions.GetTimeoutError:
            raise UsageError(
                f"The machine {machine} of the cluster did not answer within {ANSWER_SECONDS:.0f} s.",
                "Take it out of the cluster, or look at its logs.",
            ) from None
        except ray.exceptions.RayError as error:
            last = str(error).strip().rpartition("\n")[2]
            raise UsageError(
                f"The machine {machine} of the cluster cannot run Palaestra: {last}",
                "Install the same version of Palaestra on every machine of the cluster.",
            ) from error
    return answers


def demand_same_palaestra(ray: Any) -> None:
    here = version("palaestra")
    others = [f"{machine}: {there}" for machine, there in ask_each(ray, describe) if there != here]
    if others:
        raise UsageError(
            f"Palaestra is {here} here, and not on all machines of the cluster ({', '.join(others)}).",
            "Install the same version on every machine.",
        )
