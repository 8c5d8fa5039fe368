"""A training on paper that writes a run directory as a real one does: metrics, journal, log, checkpoints with the
transitions of its last steps, status.

What it learns is a hash over all its steps, so that a step that is lost, doubled or changed shows at the end.
"""

import hashlib
import json
from dataclasses import replace

import numpy as np

from palaestra.checkpoints.manager import CheckpointManager
from palaestra.checkpoints.replay_segments import Rows
from palaestra.config.train import CheckpointConfig
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.metrics_logger import Sample
from palaestra.core.run import RunRequest, RunState
from palaestra.runs.journal import Journal
from palaestra.runs.metrics.reader import MetricsReader
from palaestra.runs.metrics.writer import MetricsWriter
from palaestra.runs.status import read_written_record, write_record
from palaestra.runs.store import RunStore

NAME = "toy"
KEEP = CheckpointConfig(keep=3, keep_trainer_states=2)


CAPACITY, SEGMENT = 12, 4  # steps that it learns from, and in one segment


def transitions(first, end):
    return b"".join(b"<%06d>" % step for step in range(first, end))


class ToyTraining:
    """Of the run called `toy` below `root`, made or continued."""

    def __init__(self, root, name=NAME):
        store = RunStore(root)
        self.directory = store.named(name)
        is_new = self.directory is None
        if is_new:
            self.directory = store.create(RunRequest("native", "", {}, name), {"policy": {}}, name, 100)
        self.manager = CheckpointManager(self.directory, KEEP)
        self.step, self.state = 0, bytes(32)
        point = None if is_new else self.manager.load_for_resume()
        if point is not None:
            self.step, self.state = point.checkpoint.agent_step, point.weights["state"].numpy().tobytes()
            assert json.loads(point.trainer_state["text"])["step"] == self.step
            read = b"".join(self.manager.read_replay_rows(point.checkpoint, 0, lambda file, size, _: [file.read(size)]))
            assert read.endswith(transitions(max(0, self.step - CAPACITY), self.step)), "transitions are missing"
        self.writer = MetricsWriter(self.directory.metrics_file)
        self.writer.rewind(self.step)
        self.journal = Journal(self.directory)
        self.record("run.resumed" if point else "run.started")
        self.status(RunState.RUNNING)

    def record(self, event, **data):
        self.journal.record(event, **data)
        with self.directory.log_file(0).open("a") as log:
            log.write(f"{event} at {self.step} in {self.directory.path}\n")

    def status(self, state):
        record = replace(read_written_record(self.directory), state=state, agent_step=self.step)
        write_record(self.directory, replace(record, pid=1, pid_started_at=0.5))  # of another machine

    def train(self, steps=1):
        for _ in range(steps):
            self.step += 1
            self.state = hashlib.sha256(self.state + str(self.step).encode()).digest()
            self.writer.write(Sample(self.step, {"losses/toy": float(self.state[0]), "charts/toy": float(self.step)}))
        self.status(RunState.RUNNING)

    def save(self):
        self.writer.flush()
        described = Checkpoint(
            epoch=self.step, agent_step=self.step, total_time=0.0, run=self.directory.id, run_name=NAME, saved_at=0.0,
            policy={}, env={}, interface={},
        )  # fmt: skip
        weights = {"state": np.frombuffer(self.state, dtype=np.uint8).copy()}
        oldest = max(0, self.step - CAPACITY)
        first = max(oldest, self.manager.segments.next_row(0, SEGMENT))
        blocks = [(self.step, [transitions(first, self.step)])] if first < self.step else []
        rows = [Rows(0, first, oldest, SEGMENT, blocks)]
        self.manager.save(weights, described, {"text": json.dumps({"step": self.step})}, rows)
        self.record("checkpoint.saved", epoch=self.step)

    def finish(self, total):
        self.train(total - self.step)
        self.save()
        self.status(RunState.FINISHED)
        self.stop()

    def stop(self):
        self.writer.close()


def rows_of(directory):
    with MetricsReader(directory.metrics_file) as reader:
        return reader.rows()
