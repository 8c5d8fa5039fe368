"""Runs as a trainer would leave them, without training."""

import json
from dataclasses import replace

import pytest

from palaestra.config.train import TrainConfig
from palaestra.core.metrics_logger import Sample
from palaestra.core.run import RunRequest, RunState
from palaestra.core.trials import TrialResult
from palaestra.runner.job import TrainingJob
from palaestra.runs.metrics.writer import MetricsWriter
from palaestra.runs.status import read_record, write_record
from palaestra.runs.store import RunStore

STEPS = 1000


def leave_run(root, request, config, state, value, reached=1.0):
    """A run of that request that came to the share `reached` of its steps; its metrics rise to `value`."""
    store = RunStore(root)
    directory = store.named(request.name)
    if directory is None:
        directory = store.create(request, config.model_dump(mode="json"), request.name, config.total_steps)
    step = int(config.total_steps * reached)
    with MetricsWriter(directory.metrics_file) as writer:
        writer.rewind(-1)
        for tenth in range(1, int(10 * reached) + 1):
            at = config.total_steps * tenth // 10
            writer.write(Sample(at, {"eval/episodic_return": value * tenth / 10, "charts/episodic_return": value / 2}))
    record = replace(
        read_record(directory),
        state=state,
        agent_step=step,
        summary={"episodic_return": value / 2},
        failure="it broke" if state is RunState.FAILED else "",
    )
    write_record(directory, record)
    return directory


class FakeSlots:
    """A runner whose trials end at once, as `fate(name, config)` says: (state, value, exit code)."""

    def __init__(self, root, fate, slots=2):
        self.root, self.fate, self.slots = root, fate, slots
        self.started, self.stopped, self.is_closed = [], [], False
        self.most = 0
        self._running = {}

    def start(self, order):
        self.started.append(order.name)
        self._running[order.name] = order
        self.most = max(self.most, len(self._running))
        return order.name

    def finished(self, seconds):
        if not self._running:
            return []
        name = next(iter(self._running))
        job = TrainingJob.from_json(self._running.pop(name).job)
        state, value, code = self.fate(name, job.config)
        if state is not None:
            leave_run(self.root, job.request, job.config, state, value)
        return [TrialResult(name, code, "" if code == 0 else "no luck")]

    def stop(self, handle):
        self.stopped.append(handle)

    def close(self):
        self.is_closed = True


@pytest.fixture
def fake_slots():
    return FakeSlots


@pytest.fixture
def leave(tmp_path):
    def make(name, state=RunState.FINISHED, value=10.0, reached=1.0, **settings):
        config = TrainConfig.model_validate({"total_steps": STEPS, **settings})
        return leave_run(tmp_path / "runs", RunRequest("native", "", settings, name), config, state, value, reached)

    return make


@pytest.fixture
def trials_on_disk():
    def read(directory):
        return json.loads(directory.trials_file.read_text())["trials"]

    return read
