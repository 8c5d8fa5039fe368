"""How far W&B has been told, so that a run that goes on from an earlier step sends no point twice.

W&B has no way to take a point back. Since a resumed run repeats itself exactly, the repeated steps are simply
not sent again. The marks are overwritten in place: fixed-width numbers in one small write.
"""

from __future__ import annotations

import os
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

DIGITS = 20
OLD_COUNT = 5  # before there was a mark for evaluations


@dataclass(frozen=True)
class Marks:
    """Each is the largest step of its kind that was sent, or that waits on disk in a table to be sent."""

    sample_step: int = -1
    upload_step: int = -1  # checkpoint files
    checkpoint_row_step: int = -1
    episode_row_step: int = -1
    episode_count: int = 0  # rows sent, over all sessions: the number of the last episode
    evaluation_step: int = -1  # judgements come late, at steps that were passed long before


class MarksFile:
    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def read(self) -> Marks:
        """No marks in a file that is new or damaged: a doubled point is better than a run without W&B."""
        parts = os.pread(self._descriptor, 4096, 0).split()
        try:
            numbers = [int(word) for word in parts]
        except ValueError:
            return Marks()
        return Marks(*numbers) if len(numbers) in (OLD_COUNT, len(fields(Marks))) else Marks()

    def write(self, marks: Marks) -> None:
        line = b" ".join(b"%0*d" % (DIGITS, number) for number in astuple(marks)) + b"\n"
        os.pwrite(self._descriptor, line, 0)

    def close(self) -> None:
        os.close(self._descriptor)
