"""Questions to all nodes of a cluster at once, above all: does each have the code that is here?"""

from __future__ import annotations

import logging
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from palaestra.cluster.answers import OtherCode
from palaestra.cluster.heartbeat import Node, nodes, unreachable
from palaestra.cluster.share import describe_other_code, other_code, own_code, shorten
from palaestra.core.errors import RunFailed, UsageError
from palaestra.runs.code_identity import CodeIdentity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

logger = logging.getLogger(__name__)

FIRST_ANSWER_SECONDS = 60.0  # a node's first task starts a Python process there; nobody may answer for that long
ANSWER_SECONDS = 5.0  # once one has answered, the others get that long
POLL_SECONDS = 0.2
NODE_LABEL = "ray.io/node-id"  # every node of Ray has this label


def selector(left_out: Iterable[str]) -> dict[str, str]:
    """For `label_selector` of a task or an actor: any node but these."""
    ids = sorted(left_out)
    return {NODE_LABEL: f"!in({', '.join(ids)})"} if ids else {}


def describe(code: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """Runs on a node: its name, and what differs there from the code of who asks (see `share.other_code`)."""
    return socket.gethostname(), other_code(CodeIdentity(**code))


@dataclass(frozen=True)
class LeftOut:
    """A node that cannot be used, and why."""

    node: Node
    reason: str
    has_other_code: bool = False

    def __str__(self) -> str:
        return f"{self.node.name}: {self.reason}"


@dataclass(frozen=True)
class Answers:
    """What the nodes said to one question; who did not answer in time is left out."""

    by_node: dict[str, Any] = field(default_factory=dict)  # by id
    answered_at: dict[str, float] = field(default_factory=dict)  # by id, of this process's monotonic clock
    left_out: tuple[LeftOut, ...] = ()


def ask_each(ray: Any, question: Any, *arguments: Any) -> list[Any]:
    """`question(*arguments)` answered by every node that answers in time. It takes no CPU of anybody's."""
    return list(ask_nodes(ray, question, *arguments).by_node.values())


def ask_nodes(ray: Any, question: Any, *arguments: Any) -> Answers:
    """All nodes at once. One that cannot be reached, or is much slower than the first, is left out."""
    found = nodes(ray)
    silent = unreachable(found)
    by_node = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    task = ray.remote(question)
    asked = {
        task.options(num_cpus=0, max_retries=0, scheduling_strategy=by_node(node.id, soft=False)).remote(
            *arguments
        ): node
        for node in found
        if node.id not in silent
    }
    left_out = [LeftOut(node, silent[node.id]) for node in found if node.id in silent]
    answers: dict[str, Any] = {}
    answered_at: dict[str, float] = {}
    limit = time.monotonic() + FIRST_ANSWER_SECONDS
    while asked and time.monotonic() < limit:
        ready, _ = ray.wait(list(asked), num_returns=1, timeout=POLL_SECONDS)
        for reference in ready:
            node = asked.pop(reference)
            try:
                answers[node.id] = ray.get(reference)
                answered_at[node.id] = time.monotonic()
                limit = min(limit, answered_at[node.id] + ANSWER_SECONDS)
            except ray.exceptions.RayError as error:
                left_out.append(LeftOut(node, f"it cannot run Palaestra: {last_line(error)}"))
    left_out += [LeftOut(node, "it did not answer in time") for node in asked.values()]
    in_order = {node.id: answers[node.id] for node in found if node.id in answers}
    return Answers(in_order, answered_at, tuple(left_out))


def check_code(ray: Any, modules: Sequence[str] = (), *, allow_different_code: bool = False) -> tuple[LeftOut, ...]:
    """The nodes that cannot be used: they do not answer, or their code differs from that of this process.

    Each is named in one warning. When none is left that could be used, that is an error.
    """
    code = own_code(tuple(modules))
    fields = {"python": code.python, "packages": code.packages, "package": code.package, "modules": code.modules}
    answers = ask_nodes(ray, describe, fields)
    left_out = list(answers.left_out)
    by_id = {node.id: node for node in nodes(ray)}
    for node_id, (host, different) in answers.by_node.items():
        if different is None:
            continue
        names = shorten(describe_other_code(OtherCode(**{**different, "versions": tuple(different["versions"])})))
        node = by_id.get(node_id, Node(node_id, host, 0.0, 0.0))
        if allow_different_code:
            logger.warning("The code on %s differs (%s); cluster.allow_different_code=true accepts it.", host, names)
        else:
            left_out.append(LeftOut(node, f"its code differs: {names}", has_other_code=True))
    if len(left_out) >= len(answers.by_node) + len(answers.left_out):
        raise no_node_left(left_out)
    for one in left_out:
        logger.warning("Node left out: %s", one)
    return tuple(left_out)


def no_node_left(left_out: Iterable[LeftOut]) -> UsageError | RunFailed:
    reasons = list(left_out)
    listed = "; ".join(map(str, reasons)) or "it has none"
    message = f"No node of the cluster can be used. {listed}."
    if any(one.has_other_code for one in reasons):
        return UsageError(
            message, "Install the same code on every machine, or accept it with cluster.allow_different_code=true."
        )
    return RunFailed(message, "See 'palaestra cluster'.")


def last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(getattr(error, "cause", None) or error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__
