"""One change to a checkpoint directory, for test_syscall_faults.py to be cut off at any system call. Needs no torch.

python one_commit.py commit|retain|drop|rows DIRECTORY   -> ACK, or FAILED and the reason
"""

import os
import sys
from pathlib import Path

from palaestra.checkpoints.durable import commit
from palaestra.checkpoints.files import SaveFailed
from palaestra.checkpoints.replay_segments import Rows
from palaestra.checkpoints.retention import retain
from palaestra.checkpoints.selection import survey
from palaestra.checkpoints.store import CheckpointStore, PreparedSave
from palaestra.config.train import CheckpointConfig
from palaestra.core.checkpoint import Checkpoint


def parts(epoch):
    text = f"{epoch}".encode()
    return {f"model_{epoch:04d}.safetensors": b"W" + text * 900, f"trainer_state_{epoch:04d}.pt": b"S" + text * 700}


def described(epoch):
    return Checkpoint(epoch, epoch, 1.0, "run", "name", 1.0, {}, {}, {})


def save_rows(store, epoch):
    """With ten rows more of a replay buffer, in segments of fifteen."""
    first, end = store.segments.next_row(0, 15), 10 * epoch
    blocks = [(stop, [row_bytes(start, stop)]) for start in range(first, end, 5) if (stop := start + 5)]
    store.commit(PreparedSave(described(epoch), parts(epoch), [Rows(0, first, 0, 15, blocks)]))


def row_bytes(start, stop):
    return b"".join(b"<%05d>" % row for row in range(start, stop))


def main(action, directory):
    if action == "rows":
        store = CheckpointStore(directory, CheckpointConfig(keep=2, keep_trainer_states=2))
        for epoch in (1, 2, 3, 4):
            save_rows(store, epoch)
            os.write(1, b"saved %d\n" % epoch)
    elif action == "commit":
        commit(directory, 3, parts(3), described(3))
    else:
        retain(directory, survey(directory).checkpoints, 1 if action == "retain" else 2, 1)


if __name__ == "__main__":
    try:
        main(sys.argv[1], Path(sys.argv[2]))
        os.write(1, b"ACK\n")
    except (SaveFailed, OSError) as error:
        os.write(1, f"FAILED {error}\n".encode())
