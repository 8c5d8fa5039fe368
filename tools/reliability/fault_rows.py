"""The fault matrix as data: what is done to Palaestra, and what must hold. Tests name the rows that they meet."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palaestra.core.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Row:
    id: str  # one letter for the part of the house, and a number
    fault: str
    promise: str

    @property
    def letter(self) -> str:
        return self.id[0]


GROUPS = {
    "C": "checkpoints",
    "R": "resume and determinism",
    "E": "environments and their workers",
    "D": "several processes",
    "G": "daemon and registry",
    "S": "loggers",
    "F": "frames and shared memory",
    "W": "web",
    "V": "evaluation and discovery",
    "X": "across the house",
}

ROWS = (
    Row("C1", "kill -9 at random instants of saves", "what was acknowledged is read back whole, all of one step"),
    Row("C2", "kill -9 at each system call of a commit", "as C1"),
    Row("C3", "power loss, by a model of the disk", "no legal state serves damage; planted defects are seen"),
    Row("C4", "the disk is full or fails", "the old one stays, nothing half is left, the run goes on and tries again"),
    Row("C5", "the directory is read-only or gone", "refused at the start with path and reason; later as C4"),
    Row("C6", "a file is cut short", "the one before is used, file and reason are named"),
    Row("C7", "bits flipped, pages zeroed, bytes inserted", "as C6"),
    Row("C8", "the sidecar of another epoch copied over", "refused"),
    Row("C9", "weights without a sidecar", "no checkpoint, but listed for a person"),
    Row("C10", "a sidecar without its weights", "refused, the one before is used"),
    Row("C11", "hostile YAML: tags, laughs, depth, size", "refused at little cost"),
    Row("C12", "pickles that would run code", "nothing is run, and the way to convert is told"),
    Row("C13", "a whole pickled module", "refused with the way to convert it"),
    Row("C14", "bombs, lying sizes, endless headers", "refused within bounded time and memory"),
    Row("C15", "temporary files of dead and of living processes", "the dead's are swept, the living's stay"),
    Row("C16", "kill -9 while old checkpoints are removed", "never none; the commit mark goes first"),
    Row("C17", "a format from the future", "refused with both numbers"),
    Row("C18", "training goes on during a save", "what is saved are the values when it was asked"),
    Row("C19", "saves that come too fast", "one waits at most, the others are counted"),
    Row("C20", "segments of a replay buffer damaged, cut, gone, foreign", "named and refused; left out only by name"),
    Row("R1", "kill -9 of the trainer, continued until done", "weights, optimiser, dice and metrics: the same bytes"),
    Row("R2", "a part of the state left out", "the comparison of R1 sees it"),
    Row("R3", "SIGTERM, SIGINT, SIGUSR1, twice", "the update ends, a checkpoint is written, the exit code tells"),
    Row("R4", "a signal to the whole group, workers included", "the checkpoint is still written"),
    Row("R5", "continued with another number of processes", "refused with both numbers"),
    Row("R6", "continued with other settings", "refused with the difference, accepted by name"),
    Row("R7", "continued with other versions or threads", "goes on and says that it is not exact"),
    Row("R8", "an environment that cannot give its state", "said plainly, begun anew with other seeds"),
    Row("R9", "NaN or infinity in loss, slope, observation, reward", "stopped before the step, no such checkpoint"),
    Row("R10", "it fails at the same step every time", "failed with its first cause; nothing restarts for ever"),
    Row("R11", "kill -9 of PQN, DQN, SAC, TD3 with replay buffers", "weights, buffers and metrics: the same bytes"),
    Row("E1", "an environment raises", "named with index, seed, step and action"),
    Row("E2", "an environment hangs", "its worker is ended within the timeout, the run fails by name"),
    Row("E3", "a worker is killed or leaves", "named with how it ended"),
    Row("E4", "observations of another shape or type", "refused with the environment's number"),
    Row("E5", "an environment prints, or wants signals", "no effect on who trains"),
    Row("E6", "a worker runs out of memory", "as E1, with the MemoryError"),
    Row("E7", "kill -9 of the trainer", "no worker and no shared memory is left"),
    Row("D1", "kill -9 of one rank, continued", "the other ends, and the end is the same to the last byte"),
    Row("D2", "one rank is slow", "told as a straggler, no failure"),
    Row("D3", "one rank hangs", "noticed after the timeout"),
    Row("D4", "kill -9 of the launcher or of torchrun", "no rank is left"),
    Row("D5", "the leader dies in the middle of a commit", "as C2; the others end and do not hang"),
    Row("D6", "a signal to one rank only", "all stop at the same update"),
    Row("D7", "the port of the group is taken", "named"),
    Row("D8", "a fault on one rank before the first step", "all end, no run is left behind"),
    Row("G1", "kill -9 of the daemon, again and again", "what was accepted is done exactly once"),
    Row("G2", "kill -9 of a worker", "noticed within 2 s with cause and last words"),
    Row("G3", "a worker takes too much memory", "failed as such, the others go on"),
    Row("G4", "another process with the pid of a dead one", "neither adopted nor signalled"),
    Row("G5", "a script ignores SIGTERM", "the whole tree is gone after the grace"),
    Row("G6", "a script forks, leaves its session, hides", "found all the same, nobody is left"),
    Row("G7", "a script prints without end", "a short log, a small daemon, the script is not held up"),
    Row("G8", "who reads the output dies", "output goes to files: nobody notices"),
    Row("G9", "two daemons on one store", "the second is refused with the pid of the first"),
    Row("G10", "two trainers in one run", "the second is refused; kill -9 frees the lock"),
    Row("G11", "no room for the registry", "refused with the reason, what runs never notices"),
    Row("G12", "the registry is damaged or lost", "refused, and rebuilt from the runs"),
    Row("G13", "kill -9 during an upgrade; a newer schema", "old or new, never half; newer is refused"),
    Row("G14", "the clock jumps", "order and durations stay right"),
    Row("G15", "no file descriptors left", "nothing new starts, and it recovers"),
    Row("G16", "200 submits at once, 10,000 waiting", "all accepted in order, listed at once"),
    Row("G17", "started and stopped again and again", "no process, memory, file or descriptor is left"),
    Row("S1", "W&B raises", "the same bits, one warning"),
    Row("S2", "W&B hangs", "the same bits, the end in time"),
    Row("S3", "W&B ends its process", "the run goes on"),
    Row("S4", "TensorBoard's files cannot be written", "as S1"),
    Row("S5", "metrics torn by kill -9", "no row lost, none twice"),
    Row("S6", "a summary read while it is written", "never half a file"),
    Row("F1", "shared memory is full", "the live view ends with a message, training is unchanged"),
    Row("F2", "a lane that a dead run left", "swept"),
    Row("F3", "a reader leaves", "the lane stays"),
    Row("F4", "kill -9 of the writer in mid-frame", "the old frame or the new one, never a torn one"),
    Row("F5", "a hostile header", "dropped and counted, nothing beyond the file is read"),
    Row("F6", "huge frames", "made small before they leave"),
    Row("W1", "no, wrong or old token", "401 on every route and method"),
    Row("W2", "requests of a foreign page", "403 or 415"),
    Row("W3", "DNS rebinding, odd hosts", "421 or 400, and the server lives"),
    Row("W4", "sockets: foreign, endless, bad frames, no pong", "closed with their codes"),
    Row("W5", "a viewer that does not read", "costs nobody else anything"),
    Row("W6", "too many viewers and connections", "503, and room again when they leave"),
    Row("W7", "slow, endless and giant requests", "408, 413, 414, 431 in bounded memory"),
    Row("W8", "malformed bodies, made-up requests", "400 with the field's name, never 5xx"),
    Row("W9", "paths that lead elsewhere", "nothing outside of the store is opened"),
    Row("W10", "markup in names, logs and files", "shown as text, served as attachments"),
    Row("W11", "line breaks and escapes in logs", "one record per event, escaped"),
    Row("W12", "the port is taken", "said with a way out, exit code not 0"),
    Row("W13", "addresses that lead elsewhere", "refused with their value, no request can set one"),
    Row("V1", "an evaluation is stopped, killed, loses its file", "only whole batches, an end in time"),
    Row("V2", "Ray is away, dies or answers nonsense", "given up in time, parts are marked as parts"),
    Row("V3", "a scheme that does not multiply", "never accepted: proved anew in whole numbers"),
    Row("X1", "made-up input to every parser of ours", "data or a refusal of ours; nothing is run"),
    Row("X2", "code that could run what a file says", "none in the source, by a scan that sees planted ones"),
    Row("X3", "power loss of the small files of runs and daemon", "old or new, never half; planted defects are seen"),
    Row("X4", "everything at once for minutes (the soak)", "nothing lost, memory and descriptors flat"),
)

BY_ID = {row.id: row for row in ROWS}

# Told in every table; the exit code does not count them, so this list must stay short.
NOT_MET: dict[str, str] = {}


def choose_rows(words: Sequence[str]) -> tuple[Row, ...]:
    """Rows by letter (`C`) or id (`G2`); no words mean all."""
    if not words:
        return ROWS
    for word in words:
        if word not in GROUPS and word not in BY_ID:
            known = f"Known are the parts {', '.join(GROUPS)} and the rows {ROWS[0].id} to {ROWS[-1].id}."
            raise UsageError(f"The fault matrix has no '{word}'.", did_you_mean(word, [*GROUPS, *BY_ID]) or known)
    return tuple(row for row in ROWS if row.id in words or row.letter in words)


def check_ids(ids: Sequence[object], place: str) -> tuple[str, ...]:
    """What a test's marker names; a slip of the pen would leave a row without its test."""
    for one in ids:
        if not isinstance(one, str) or one not in BY_ID:
            raise UsageError(f"{place} names the row {one!r}, which the fault matrix does not have.")
    if not ids:
        raise UsageError(f"{place} names no row of the fault matrix.", "Write it as @pytest.mark.fault('C1').")
    return tuple(str(one) for one in ids)


def named_rows(source: str) -> set[str]:
    """Rows that the markers in a test file's text name, without importing it."""
    marked = re.findall(r"\bmark\.fault\(([^)]*)\)", source)
    return {word for inside in marked for word in re.findall(r"""["'](\w+)["']""", inside)}
