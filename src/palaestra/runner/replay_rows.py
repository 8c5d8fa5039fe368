"""The rows of the replay buffers of all ranks: what is new goes to the leader's checkpoints, and comes back from them.

Only the leader reads and writes files, so that ranks need no shared disk.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING

from palaestra.algorithms.buffers.replay_rows import encode_header, export_rows, load_block, read_blocks, row_bytes
from palaestra.algorithms.serialization import deserialize, serialize
from palaestra.checkpoints.replay_segments import Rows, segment_rows
from palaestra.core.errors import DamagedFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
    from palaestra.algorithms.buffers.replay_rows import BlockHeader
    from palaestra.algorithms.group import Group
    from palaestra.checkpoints.manager import CheckpointManager
    from palaestra.checkpoints.replay_segments import SegmentWriter
    from palaestra.checkpoints.store import ResumePoint
    from palaestra.training.state import TrainingState

MOST_COPIED_BYTES = 256 << 20  # of one rank, for a save in the background; more is written while training waits


def is_much(state: TrainingState, writer: SegmentWriter) -> bool:
    """Whether the leader has more new rows than are copied for a save in the background."""
    buffer = state.algorithm.replay_buffer
    if buffer is None or not state.config.checkpoints.replay_buffer:
        return False
    first = _first_row(buffer, writer.next_row(0, _segment_rows(buffer, state.group)))
    return (buffer.total_rows - first) * row_bytes(buffer) > MOST_COPIED_BYTES


def gather_rows(state: TrainingState, writer: SegmentWriter | None = None, *, copied: bool = False) -> list[Rows]:
    """A collective. Gives the leader, who has the `writer`, what all buffers have that no checkpoint has yet.

    With `copied` training may go on before they are written.
    """
    buffer, group = state.algorithm.replay_buffer, state.group
    if buffer is None or not state.config.checkpoints.replay_buffer:
        return []
    size = _segment_rows(buffer, group)
    wanted = [] if writer is None else [writer.next_row(rank, size) for rank in range(group.world_size)]
    if group.world_size == 1:
        first = _first_row(buffer, wanted[0])
        blocks = export_rows(buffer, first, size)
        pieces = [(end_row, [b"".join(views)]) for end_row, views in blocks] if copied else blocks
        return [Rows(0, first, buffer.oldest_row, size, pieces)]
    wanted = json.loads(group.broadcast_bytes(json.dumps(wanted).encode()))
    first = _first_row(buffer, wanted[group.rank])
    own = [[end_row, b"".join(views)] for end_row, views in export_rows(buffer, first, size)]
    gathered = group.gather_bytes(serialize([first, buffer.oldest_row, own]))
    found = []
    for rank, data in enumerate(gathered):
        first, oldest, blocks_of_rank = deserialize(data)
        found.append(Rows(rank, first, oldest, size, [(end_row, [raw]) for end_row, raw in blocks_of_rank]))
    return found


def _segment_rows(buffer: ReplayBuffer, group: Group) -> int:
    return segment_rows(buffer.capacity, row_bytes(buffer), group.world_size)


def _first_row(buffer: ReplayBuffer, wanted: int) -> int:
    """Of those to write: a row that was written and has changed since is written again."""
    has_changed = buffer.rewritten_row is not None and wanted == buffer.rewritten_row + 1
    return max(wanted - has_changed, buffer.oldest_row)


@dataclass
class RowLoader:
    """Fills a buffer from a checkpoint; call it on every rank."""

    manager: CheckpointManager
    point: ResumePoint | None  # the leader's
    group: Group
    is_left_out: bool = False  # as the user asked for
    why_not: str = ""  # why the buffer begins anew, once it was called

    def __call__(self, buffer: ReplayBuffer) -> bool:
        """A collective. Whether the rows were loaded."""
        if self.point is not None:
            self.why_not = self._find_reason(buffer)
        self.why_not = self.group.broadcast_bytes(self.why_not.encode()).decode()
        if self.why_not:
            return False
        expected = buffer.oldest_row
        for header, payload in self._blocks(buffer):
            if header.first_row > expected:
                break
            load_block(buffer, header, payload)
            expected = max(expected, header.end_row)
        if expected < buffer.total_rows:
            raise DamagedFile(f"The replay buffer of rank {self.group.rank} lacks the steps from row {expected} on.")
        buffer.finish_loading()
        return True

    def _find_reason(self, buffer: ReplayBuffer) -> str:
        assert self.point is not None, "the leader has it"
        if buffer.total_rows == 0:
            return ""
        if self.is_left_out:
            return "The replay buffer was left out (--without-replay-buffer) and is filled anew."
        if not self.point.checkpoint.replay_segments:
            return "The replay buffer was not saved (checkpoints.replay_buffer=false) and is filled anew."
        return ""

    def _blocks(self, buffer: ReplayBuffer) -> Iterator[tuple[BlockHeader, bytes]]:
        """This rank's, oldest first. The leader reads the others' too and sends them."""
        read = partial(read_blocks, buffer)
        checkpoint = None if self.point is None else self.point.checkpoint
        if checkpoint is not None:
            yield from self.manager.read_replay_rows(checkpoint, 0, read)
        for rank in range(1, self.group.world_size):
            if checkpoint is not None:
                for header, payload in self.manager.read_replay_rows(checkpoint, rank, read):
                    self.group.broadcast_bytes(encode_header(header) + payload)
                self.group.broadcast_bytes(b"")
                continue
            while data := self.group.broadcast_bytes(b""):
                if rank == self.group.rank:
                    yield from read_blocks(buffer, BytesIO(data), len(data), f"the rows of rank {rank}")
