"""Snapshots of the script's networks, written into a folder of their own; our side is told where and takes them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from . import normalisers, snapshot
from .jax_states import find_states
from .names import names_of

if TYPE_CHECKING:
    from pathlib import Path

    from .observer import Observer


class Saver:
    def __init__(self, observer: Observer, outbox: Path, script: Path, source: bytes) -> None:
        self._observer = observer
        self._outbox = outbox
        self._count = 0
        self._locals: dict[str, Any] = {}  # of the script's functions, which are gone when those return
        self._statistics: dict[str, Any] = {}  # of observations, as they were when they could be asked for last
        self._notes = {
            "script": script.name,
            "sha256": hashlib.sha256(source).hexdigest(),
            "source": source.decode("utf-8", "replace"),
        }

    def remember(self, vector: Any) -> None:
        """At the first step, without one, and before one is closed: processes of environments take what they know."""
        names = self._known()
        world = normalisers.world_of(names)
        if vector is not None and world is not None and normalisers.base_of(world) is vector:
            self._statistics = normalisers.collect(names) or self._statistics

    def save(self, why: str) -> None:
        names = self._known()
        tensors, classes = snapshot.take(names)
        states = find_states(names)
        classes.update(states.classes)
        if not classes:
            self._observer.say("unsaved", why, "no network was found among the names of the script")
            return
        if states.networks:
            tensors = {**tensors, **states.tensors, **normalisers.collect(names)}
        found = {name: one for name, one in tensors.items() if name.startswith(f"{normalisers.NORMALISERS}.")}
        self._statistics = found or self._statistics
        arguments = json.dumps(snapshot.arguments_of(names))
        notes = {**self._notes, "args": arguments, "classes": json.dumps(classes), "env_id": self._observer.env_id}
        if states.networks:
            notes["states"] = json.dumps(states.networks)
        self._count += 1
        path = self._outbox / f"{self._count:06d}.safetensors"
        try:
            snapshot.write(path, {**tensors, **self._statistics}, notes)
        except OSError as error:
            self._observer.say("unsaved", why, f"it could not be written: {error.strerror}")
            return
        self._observer.say("saved", why, str(path), self._observer.global_step, classes)

    def _known(self) -> dict[str, Any]:
        script = self._observer.script
        names = names_of(script)
        self._locals.update({name: value for name, value in names.items() if script.get(name) is not value})
        return {**self._locals, **names}
