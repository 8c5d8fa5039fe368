"""Scalars of many moments, those of the same tags side by side: a fast training has thousands of them a second."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from palaestra.loggers.event_messages import MOMENT_BYTES, SCALAR_BYTES, Form, form_of, scalars_event, step_bytes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True)
class AlikePoints:
    """Events that differ only in time, step and scalars, and whose bytes are as many."""

    tags: tuple[str, ...]
    form: Form
    moments: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    rows: list[Sequence[float]] = field(default_factory=list)  # scalars in the order of the tags

    def one_by_one(self) -> Iterator[bytes]:
        for moment, step, row in zip(self.moments, self.steps, self.rows, strict=True):
            yield scalars_event(moment, step, dict(zip(self.tags, row, strict=True)))

    def bytes_that_differ(self) -> NDArray[np.uint8]:
        """[events, the form's places]"""
        steps = np.array(self.steps)
        bits = [steps >> 7 * number & 0x7F for number in range(len(self.form.step))]
        more_follow = [part | 0x80 for part in bits[:-1]]
        with np.errstate(over="ignore"):  # beyond what 32 bits can hold there is only infinity
            scalars = np.array(self.rows, np.float64).astype("<f4")
        moments = np.array(self.moments, "<f8")
        return np.column_stack(
            [
                moments.view(np.uint8).reshape(-1, MOMENT_BYTES),
                *(part.astype(np.uint8) for part in (*more_follow, *bits[-1:])),
                scalars.view(np.uint8).reshape(len(steps), len(self.tags) * SCALAR_BYTES),
            ]
        )


class PointsByTags:
    """What was added, in as few `AlikePoints` as it takes."""

    def __init__(self) -> None:
        self._alike: dict[tuple[tuple[str, ...], int], AlikePoints] = {}

    def add(self, moment: float, step: int, tags: tuple[str, ...], rows: Iterable[Sequence[float]]) -> None:
        """Several of one moment: each row is a point of every tag."""
        key = (tags, step_bytes_of(step))
        points = self._alike.get(key)
        if points is None:
            points = self._alike[key] = AlikePoints(tags, form_of(*key))
        before = len(points.rows)
        points.rows.extend(rows)
        count = len(points.rows) - before
        points.moments.extend(repeat(moment, count))
        points.steps.extend(repeat(step, count))

    def __iter__(self) -> Iterator[AlikePoints]:
        return iter(self._alike.values())
