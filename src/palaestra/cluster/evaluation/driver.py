"""The Ray driver of evaluations: reads requests, sends shares of their plans to Ray's workers, and reports results."""

from __future__ import annotations

import json
import os
import select
from collections import Counter, OrderedDict
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from palaestra.checkpoints.durable import verify
from palaestra.checkpoints.files import model_name
from palaestra.checkpoints.selection import epoch_of_path
from palaestra.checkpoints.sidecar import encode
from palaestra.cluster.evaluation.dispatch import Dispatch
from palaestra.cluster.evaluation.messages import (
    CodeRefusal,
    InvalidResponse,
    Progress,
    Refusal,
    imported_modules,
    progress_to_json,
    read_response,
    share_to_json,
)
from palaestra.cluster.nodes import ExcludedNode, NodeMonitor, last_line, no_usable_node, selector
from palaestra.config.distributed import ClusterConfig
from palaestra.core.errors import NotFound, PalaestraError
from palaestra.evaluation.plans import request_from_json
from palaestra.runs.environment import code_of_process, describe_differences, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from palaestra.cluster.connection import RaySession
    from palaestra.cluster.evaluation.dispatch import Message, Work
    from palaestra.cluster.evaluation.messages import PlayedShare, Worker
    from palaestra.cluster.nodes import Change, Node
    from palaestra.runs.environment import CodeIdentity

POLL_SECONDS = 0.05  # how long new requests wait while shares are played
HEARTBEAT_SECONDS = 2.0  # between two heartbeats
PER_PROCESSOR = 4  # shares in Ray's queue per processor, so that the next one is ready
NO_PROCESSOR_SECONDS = 60.0  # for which a cluster may have no processor
DEATH_SECONDS = 10.0  # for Ray to report the shares of a dead node; then they are played again
FAILURES = 2  # of shares on a node before their request avoids it
TASK = {"num_cpus": 1, "max_retries": 0, "num_returns": "streaming"}  # retries are counted by us


def play(text: str, sidecar: bytes, weights: bytes) -> Iterator[str]:
    """Runs on the worker; imports by name, so that torch is loaded there and not here."""
    ray: Any = import_module("ray")
    node = ray.get_runtime_context().get_node_id() if ray.is_initialized() else ""
    yield progress_to_json(node, 0)
    yield from import_module("palaestra.cluster.evaluation.tasks").play_share(text, sidecar, weights, node)


@dataclass(frozen=True)
class _Sent:
    """A share that Ray has."""

    work: Work
    progress: Progress | None = None  # None: it waits for a worker
    progress_at: float = 0.0


class Driver:
    def __init__(self, session: RaySession, responses: int, cluster: ClusterConfig | None = None) -> None:
        self._ray = session.ray
        self._responses = responses
        self._cluster = cluster or ClusterConfig()
        self._dispatch = Dispatch()
        self._weights = WeightStore(self._ray.put)
        self._sendings: dict[int, _Sending] = {}  # by number of the request
        self._in_flight: dict[Any, _Sent] = {}  # by Ray's generator of the responses
        self._suspected: dict[Any, _Sent] = {}  # the same, for those that may be on a lost node
        self._hung: dict[Any, str] = {}  # id of the node, for those that no longer count; until Ray has ended them
        self._monitor = NodeMonitor(self._ray, self._cluster.node_timeout)
        self._excluded: dict[str, ExcludedNode] = {}  # by id of the node, for every request
        self._checks: list[tuple[float, list[Any]]] = []  # when, and which references should have ended by then
        self._task = self._ray.remote(**TASK)(play)
        self._sent_at = monotonic()
        self._fed_at = monotonic()  # when there was a processor

    def run(self, lines: int) -> None:
        """Runs until standard input is closed; open requests are then given up."""
        text, is_open = b"", True
        while is_open:
            is_waited_for = self._in_flight or self._suspected  # in `_hear`
            wait = 0.0 if is_waited_for else POLL_SECONDS if len(self._dispatch) else HEARTBEAT_SECONDS
            if select.select([lines], [], [], wait)[0]:
                data = os.read(lines, 1 << 20)
                is_open = bool(data)
                *whole, text = (text + data).split(b"\n")
                for line in whole:
                    self._take(json.loads(line))
            self._watch_nodes()
            self._watch_progress()
            self._send()
            self._receive_results()
            if monotonic() - self._sent_at > HEARTBEAT_SECONDS:
                self.send({"heartbeat": len(self._in_flight)})

    def send(self, message: Message) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self._responses, data) :]
        self._sent_at = monotonic()

    def _take(self, message: dict[str, Any]) -> None:
        number = int(message["id"])
        if message.get("drop"):
            if number in self._dispatch.numbers():
                self._report(self._dispatch.given_up(number, "The request was cancelled."))
            return
        request = request_from_json(message["request"])
        self._dispatch.add(number, request)
        try:
            upload = self._weights.take(Path(message["sidecar"]), request.weights)
        except PalaestraError as error:
            self._report(self._dispatch.given_up(number, error.message, error.hint, error.exit_code))
            return
        code = code_of_process(imported_modules(request.plans, upload.policy))
        self._sendings[number] = _Sending(upload, bool(message["trust_module"]), code)

    def _watch_nodes(self) -> None:
        """Reports lost nodes once, and plays again elsewhere what may have been there."""
        for change in self._monitor.update():
            if not change.is_lost:
                self.send({"note": f"Node {change.node.name} responds again and is used."})
                continue
            if change.node.cpus:
                self._note_loss(change)
            delay = DEATH_SECONDS if change.node.id not in self._monitor.silent else 0.0
            self._checks.append((monotonic() + delay, list(self._in_flight)))
        due = [references for at, references in self._checks if at <= monotonic()]
        self._checks = [check for check in self._checks if check[0] > monotonic()]
        for reference in (each for references in due for each in references if each in self._in_flight):
            sent = self._suspected[reference] = self._in_flight.pop(reference)
            self._dispatch.suspect(sent.work)

    def _watch_progress(self) -> None:
        """Ends workers that finish no episode, and gives their shares to others."""
        oldest = monotonic() - self._cluster.share_timeout
        for reference, sent in [*self._in_flight.items(), *self._suspected.items()]:
            if sent.progress is not None and sent.progress_at < oldest:
                self._end_hung(reference, sent.work, sent.progress)

    def _end_hung(self, reference: Any, work: Work, progress: Progress) -> None:
        self._in_flight.pop(reference, None)
        self._suspected.pop(reference, None)
        node = self._monitor.node(progress.worker.node)
        place = progress.worker.host if node is None else node.name
        seconds = f"{self._cluster.share_timeout:g} s (cluster.share_timeout)"
        reason = f"no episode of '{work.plan.simulation}' ended within {seconds}"
        self.send({"note": f"Worker left out: process {progress.pid} on {place}: {reason}."})
        self._hung[reference] = progress.worker.node
        self._ray.cancel(reference, force=True)
        if node is not None:
            self._count_failure(work, node, reason)
        self._report(self._dispatch.lost(work, f"{reason}."))

    def _note_loss(self, change: Change) -> None:
        self.send({"note": f"Node left out: {change.node.name}: {change.reason}. Its episodes are played elsewhere."})

    def _send(self) -> None:
        if not len(self._dispatch):
            return
        processors = self._processors()
        while processors and len(self._in_flight) < PER_PROCESSOR * processors:
            work = self._dispatch.next(processors)
            if work is None:
                return
            sending = self._sendings[work.number]
            text = share_to_json(
                self._dispatch.request_of(work),
                work.plan,
                trust_module=sending.trust_module,
                code=sending.code,
                allow_different_code=self._cluster.allow_different_code,
            )
            avoided = selector(self._monitor.silent | self._excluded.keys() | sending.avoided.keys())
            task = self._task.options(label_selector=avoided) if avoided else self._task
            self._in_flight[task.remote(text, sending.upload.sidecar, sending.upload.weights)] = _Sent(work)

    def _processors(self) -> int:
        """Of all nodes, except those that hung workers still take."""
        hung = Counter(self._hung.values())
        usable = [node for node in self._monitor.usable if node.id not in self._excluded]
        found = int(sum(max(0.0, node.cpus - hung[node.id]) for node in usable))
        now = monotonic()
        if found:
            self._fed_at = now
        elif now - self._fed_at > NO_PROCESSOR_SECONDS:
            for number in self._dispatch.numbers():
                error = f"The Ray cluster has had no processor for {NO_PROCESSOR_SECONDS:g} s."
                self._report(self._dispatch.given_up(number, error, "Are its workers up? See 'palaestra cluster'."))
        return found

    def _receive_results(self) -> None:
        awaited = [*self._in_flight, *self._suspected]
        references = [*awaited, *self._hung]
        if not references:
            return
        ready, _ = self._ray.wait(references, num_returns=1, timeout=POLL_SECONDS if awaited else 0)
        if ready:
            ready, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
        for reference in ready:
            if reference in self._hung:
                self._read_late(reference)
            else:
                self._report(
                    self._read(reference, self._in_flight if reference in self._in_flight else self._suspected)
                )

    def _read(self, reference: Any, sent: dict[Any, _Sent]) -> list[Message]:
        """Reads the next response of a share, which stays in `sent` when it is only progress."""
        work = sent.pop(reference).work
        try:
            response = read_response(self._ray.get(next(reference)), work.plan)
        except InvalidResponse as garbage:
            return self._dispatch.lost(work, f"the response was invalid ({garbage}).")
        except StopIteration:
            return self._dispatch.lost(work, "the response was invalid (it has no episodes).")
        except self._ray.exceptions.RayError as error:
            self._count_task_error(work, error)
            return self._dispatch.lost(work, describe_ray_error(error, self._ray.exceptions))
        if isinstance(response, Progress):
            sent[reference] = _Sent(work, response, monotonic())
            return []
        if isinstance(response, Refusal):
            return self._dispatch.refused(work, response)
        if isinstance(response, CodeRefusal):
            return self._refuse_code(work, response)
        return self._dispatch.played(work, response, self._accepted(response))

    def _read_late(self, reference: Any) -> None:
        """Drops messages of a hung worker; its CPU is free when its task has ended."""
        try:
            self._ray.get(next(reference))
        except (StopIteration, self._ray.exceptions.RayError):
            del self._hung[reference]

    def _refuse_code(self, work: Work, refusal: CodeRefusal) -> list[Message]:
        """Excludes the worker's node and sends the share to another; an error when none is left."""
        if not self._dispatch.is_open(work):
            return []
        names = shorten(describe_differences(refusal.code))
        sending = self._sendings[work.number]
        avoided = self._excluded if refusal.code.affects_all_requests else sending.avoided
        self._leave_out(avoided, refusal.worker, f"its code differs: {names}")
        everywhere = {**self._excluded, **sending.avoided}
        if all(node.id in everywhere for node in self._monitor.usable if node.cpus):
            error = no_usable_node(everywhere.values())
            return self._dispatch.given_up(work.number, error.message, error.hint, error.exit_code)
        self._dispatch.returned(work)
        return []

    def _leave_out(self, avoided: dict[str, ExcludedNode], worker: Worker, reason: str) -> None:
        node = self._monitor.node(worker.node)
        if node is None or node.id in avoided:
            return
        avoided[node.id] = ExcludedNode(node, reason, has_different_code=True)
        self.send({"note": f"Node left out: {avoided[node.id]}"})

    def _accepted(self, played: PlayedShare) -> list[str] | None:
        return None if played.code is None else describe_differences(played.code)

    def _count_task_error(self, work: Work, error: Exception) -> None:
        """Counts errors of our function itself: a broken installation, a full disk."""
        node = self._monitor.node_at(getattr(error, "ip", ""))
        if node is not None and isinstance(error, self._ray.exceptions.RayTaskError):
            self._count_failure(work, node, last_line(error))

    def _count_failure(self, work: Work, node: Node, reason: str) -> None:
        """Excludes a node where several shares failed, for this request.

        The last node stays, so that the error of the request is reported.
        """
        sending = self._sendings.get(work.number)
        if sending is None:
            return
        sending.failures[node.id] += 1
        taken = self._excluded.keys() | sending.avoided.keys()
        others = [each for each in self._monitor.usable if each.cpus and each.id not in taken and each.id != node.id]
        if sending.failures[node.id] >= FAILURES and others and node.id not in sending.avoided:
            sending.avoided[node.id] = ExcludedNode(node, reason)
            self.send({"note": f"Node left out: {sending.avoided[node.id]}"})

    def _report(self, messages: list[Message]) -> None:
        for message in messages:
            self.send(message)
            if message.get("done"):
                sending = self._sendings.pop(message["id"], None)
                if sending is not None:
                    self._weights.release(sending.upload)


class _Sending:
    """What is sent with every share of a request, and the nodes that it avoids."""

    def __init__(self, upload: CheckpointUpload, trust_module: bool, code: CodeIdentity) -> None:
        self.upload = upload
        self.trust_module = trust_module
        self.code = code
        self.avoided: dict[str, ExcludedNode] = {}  # by id of the node
        self.failures: Counter[str] = Counter()


def describe_ray_error(error: Exception, known: Any) -> str:
    """One line about a share that was lost; `known` are Ray's exceptions."""
    if isinstance(error, known.WorkerCrashedError | known.NodeDiedError):
        return "their worker was lost."
    if isinstance(error, known.OutOfMemoryError):
        return "their worker ran out of memory."
    cause = getattr(error, "cause", None) or error
    return f"{type(cause).__name__}: {last_line(error)}"


MAX_IDLE_BYTES = 64 << 20  # of unused weights in Ray's object store


@dataclass(frozen=True)
class CheckpointUpload:
    sha256: str  # of the weights
    sidecar: bytes
    weights: Any  # a reference into the store of Ray
    policy: dict[str, Any]  # as the sidecar has it


@dataclass
class _Stored:
    weights: Any
    size: int
    sidecars: dict[Path, tuple[bytes, dict[str, Any]]] = field(default_factory=dict)  # and the policy in each
    users: int = 0


class WeightStore:
    """Objects in Ray's store; `put` is Ray's. A user of an upload returns it when it is no longer played."""

    def __init__(self, put: Callable[[bytes], Any], max_idle_bytes: int = MAX_IDLE_BYTES) -> None:
        self._put = put
        self._max_idle_bytes = max_idle_bytes
        self._stored: OrderedDict[str, _Stored] = OrderedDict()  # by sha256; the last one used at the end

    def take(self, path: Path, sha256: str) -> CheckpointUpload:
        """The checkpoint of that sidecar, if its weights have this sha256."""
        stored = self._stored.get(sha256)
        if stored is None or path not in stored.sidecars:
            sidecar, weights, policy = packed(path, sha256)
            if stored is None:
                stored = self._stored[sha256] = _Stored(self._put(weights), len(weights))
            stored.sidecars[path] = sidecar, policy
        stored.users += 1
        self._stored.move_to_end(sha256)
        sidecar, policy = stored.sidecars[path]
        return CheckpointUpload(sha256, sidecar, stored.weights, policy)

    def release(self, upload: CheckpointUpload) -> None:
        """Releases a checkpoint; unused weights stay in the store up to the limit."""
        self._stored[upload.sha256].users -= 1
        idle = [key for key, stored in self._stored.items() if not stored.users]
        size = sum(self._stored[key].size for key in idle)
        for key in idle:
            if size <= self._max_idle_bytes:
                return
            size -= self._stored.pop(key).size


def packed(path: Path, sha256: str) -> tuple[bytes, bytes, dict[str, Any]]:
    """Sidecar, weights and policy, verified.

    Without scores and the trainer's state, which change later and are not needed to play.
    """
    checkpoint, parts = verify(path.parent, epoch_of_path(path))
    name = model_name(checkpoint.epoch)
    if checkpoint.files[name]["sha256"] != sha256:
        raise NotFound(f"{path} has different weights by now.", "Send the request again.")
    bare = replace(
        checkpoint,
        score=None,
        avg_reward=None,
        metrics={},
        files={name: checkpoint.files[name]},
        replay_segments={},
        path=None,
    )
    return encode(bare), parts[name], dict(checkpoint.policy)
