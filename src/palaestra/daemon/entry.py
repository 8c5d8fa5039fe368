"""What a daemon knows of one run; this is what lists, pages and sockets show."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from palaestra.core.run import RunRecord, RunState
from palaestra.daemon.ticket import Ticket, decode_ticket, encode_ticket

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Entry:
    record: RunRecord
    ticket: Ticket | None = None  # None: made by somebody else, such as `palaestra train`
    gpus: tuple[int, ...] = ()  # devices given to it while it runs
    is_silent: bool = False  # it runs, but has not been heard of for long
    status_stamp: str = ""  # tells whether status.json is still the one that `record` was read from

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def state(self) -> RunState:
        return self.record.state

    @property
    def is_waiting(self) -> bool:
        """In this daemon's queue; a run that `palaestra train` has only just made is not."""
        return self.ticket is not None and self.record.state is RunState.QUEUED


def encode_entry(entry: Entry) -> dict[str, Any]:
    return {
        "record": asdict(entry.record),
        "ticket": None if entry.ticket is None else encode_ticket(entry.ticket),
        "gpus": list(entry.gpus),
        "status_stamp": entry.status_stamp,
    }


def decode_entry(data: dict[str, Any], path: Path) -> Entry:
    """KeyError, TypeError, ValueError and DamagedFile say that it was none of ours."""
    record = RunRecord(**{**data["record"], "state": RunState(data["record"]["state"])})
    ticket = None if data["ticket"] is None else decode_ticket(data["ticket"], path)
    return Entry(record, ticket, tuple(data["gpus"]), status_stamp=str(data["status_stamp"]))
