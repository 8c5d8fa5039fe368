"""Speaks with Ray for somebody else: lines of requests in, shares to Ray, lines of what came of them out."""

from __future__ import annotations

import json
import os
import select
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from palaestra.cluster.answers import Garbage, Refusal, read_answer
from palaestra.cluster.delivery import Deliveries
from palaestra.cluster.dispatch import Dispatch
from palaestra.cluster.share import share_to_json
from palaestra.contracts.errors import PalaestraError
from palaestra.evaluation.request import request_from_json

if TYPE_CHECKING:
    from palaestra.cluster.connection import RaySession
    from palaestra.cluster.delivery import Parcel
    from palaestra.cluster.dispatch import Message, Work

LOOK_SECONDS = 0.05  # how long nothing is heard of new requests while shares are played
BEAT_SECONDS = 2.0  # between two signs of life
COUNT_SECONDS = 1.0  # between two questions how many processors there are
PER_PROCESSOR = 4  # shares that Ray is given for each: the next one lies ready when one is done
STARVED_SECONDS = 60.0  # for so long a cluster may have no processor at all
TASK = {"num_cpus": 1, "max_retries": 0}  # retries are counted by us


def play(text: str, sidecar: bytes, weights: bytes) -> str:
    """On the worker; by name, so that torch is loaded there and not here."""
    answer: str = import_module("palaestra.cluster.tasks").play_share(text, sidecar, weights)
    return answer


class Driver:
    def __init__(self, session: RaySession, answers: int) -> None:
        self._ray = session.ray
        self._session = session
        self._answers = answers
        self._dispatch = Dispatch()
        self._deliveries = Deliveries(self._ray.put)
        self._parcels: dict[int, tuple[Parcel, bool]] = {}  # by number of the request; and whether it is trusted
        self._under_way: dict[Any, Work] = {}  # by Ray's reference to the answer
        self._task = self._ray.remote(**TASK)(play)
        self._said_at = monotonic()
        self._fed_at = monotonic()  # when there was a processor
        self._found = 0
        self._counted_at = float("-inf")

    def run(self, lines: int) -> None:
        """Until standard input is closed; what is under way then is given up."""
        text, is_open = b"", True
        while is_open:
            wait = 0.0 if self._under_way or len(self._dispatch) else BEAT_SECONDS
            if select.select([lines], [], [], wait)[0]:
                data = os.read(lines, 1 << 20)
                is_open = bool(data)
                *whole, text = (text + data).split(b"\n")
                for line in whole:
                    self._take(json.loads(line))
            self._send()
            self._hear()
            if monotonic() - self._said_at > BEAT_SECONDS:
                self.say({"beat": len(self._under_way)})

    def say(self, message: Message) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self._answers, data) :]
        self._said_at = monotonic()

    def _take(self, asked: dict[str, Any]) -> None:
        number = int(asked["id"])
        if asked.get("drop"):
            if number in self._dispatch.numbers():
                self._tell(self._dispatch.given_up(number, "Nobody wants it any more."))
            return
        request = request_from_json(asked["request"])
        self._dispatch.add(number, request)
        try:
            parcel = self._deliveries.take(Path(asked["sidecar"]), request.weights)
        except PalaestraError as error:
            self._tell(self._dispatch.given_up(number, error.message, error.hint, error.exit_code))
            return
        self._parcels[number] = (parcel, bool(asked["trust_module"]))

    def _send(self) -> None:
        if not len(self._dispatch):
            return
        processors = self._processors()
        while len(self._under_way) < PER_PROCESSOR * max(1, processors):
            work = self._dispatch.next(processors)
            if work is None:
                return
            parcel, trust_module = self._parcels[work.number]
            text = share_to_json(self._dispatch.request_of(work), work.plan, trust_module=trust_module)
            self._under_way[self._task.remote(text, parcel.sidecar, parcel.weights)] = work

    def _processors(self) -> int:
        now = monotonic()
        if now > self._counted_at + COUNT_SECONDS:
            self._found, self._counted_at = int(self._session.cpus), now
        if self._found:
            self._fed_at = now
        elif now - self._fed_at > STARVED_SECONDS:
            for number in self._dispatch.numbers():
                error = f"The Ray cluster has had no processor for {STARVED_SECONDS:g} s."
                self._tell(self._dispatch.given_up(number, error, "Are its workers up? See 'ray status'."))
        return self._found

    def _hear(self) -> None:
        if not self._under_way:
            return
        ready, _ = self._ray.wait(list(self._under_way), num_returns=1, timeout=LOOK_SECONDS)
        if ready:
            ready, _ = self._ray.wait(list(self._under_way), num_returns=len(self._under_way), timeout=0)
        for reference in ready:
            self._tell(self._judged(reference, self._under_way.pop(reference)))

    def _judged(self, reference: Any, work: Work) -> list[Message]:
        try:
            answer = read_answer(self._ray.get(reference), work.plan)
        except Garbage as garbage:
            return self._dispatch.lost(work, f"the answer was garbage ({garbage}).")
        except self._ray.exceptions.RayError as error:
            return self._dispatch.lost(work, in_words(error, self._ray.exceptions))
        if isinstance(answer, Refusal):
            return self._dispatch.refused(work, answer)
        return self._dispatch.played(work, answer)

    def _tell(self, messages: list[Message]) -> None:
        for message in messages:
            self.say(message)
            if message.get("done"):
                parcel, _ = self._parcels.pop(message["id"], (None, False))
                if parcel is not None:
                    self._deliveries.give_back(parcel)


def in_words(error: Exception, known: Any) -> str:
    """What Ray says of a share that did not come back, in a line; `known` are its exceptions."""
    if isinstance(error, known.WorkerCrashedError | known.NodeDiedError):
        return "the worker that played them was lost."
    if isinstance(error, known.OutOfMemoryError):
        return "the worker that played them had no memory left."
    cause = getattr(error, "cause", None) or error
    line = next((text.strip() for text in reversed(str(cause).splitlines()) if text.strip()), "")
    return f"{type(cause).__name__}: {line[:300]}"
