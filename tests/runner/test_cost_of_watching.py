"""Whoever watches a run must not slow it down: what is done beyond playing and learning, measured in the run itself."""

import time
from dataclasses import replace
from itertools import pairwise
from statistics import median

import pytest

from palaestra.config.recipes.classic import cartpole
from palaestra.loggers.build import build_loggers
from palaestra.loggers.status import RunHeader
from palaestra.runner import loop

ITERATIONS = 40
CONFIG = cartpole.config.model_copy(
    update={
        "total_steps": ITERATIONS * cartpole.config.ppo.batch_size,
        "checkpoints": cartpole.config.checkpoints.model_copy(update={"save_interval": 0}),
    }
)


class Watch:
    """A trainer whose iterations, and what is done between them, are timed.

    In processor time of this thread, which a busy machine does not change.
    """

    def __init__(self, train):
        self._train = train
        self.training: list[float] = []  # seconds of each iteration
        self.watching: list[float] = []  # seconds between them

    def __call__(self, state):
        marks = [time.thread_time()]
        for report in self._train(state):
            marks.append(time.thread_time())
            yield report
            marks.append(time.thread_time())
        spent = [after - before for before, after in pairwise(marks)]
        self.training, self.watching = spent[::2], spent[1::2]


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "most"), [("torch", 0.02), ("native", 0.1)])
def test_watching_a_run_takes_a_small_share_of_it_and_waits_for_no_disk(make_bench, monkeypatch, engine, most):
    """With the smallest task there is and every logger that a run has by default; nothing is saved meanwhile."""
    bench = make_bench(CONFIG.model_copy(update={"engine": engine}))
    watch, synced = Watch(loop.train), []
    monkeypatch.setattr(loop, "train", watch)
    monkeypatch.setattr(loop.TrainingLoop, "_save_the_end", lambda _loop: None)
    header = RunHeader("watched", "cartpole", CONFIG.total_steps, bench.directory.path)
    with build_loggers(CONFIG.loggers, bench.directory, header, {}, lambda name, error: pytest.fail(name)) as loggers:
        loggers.add("recording", lambda: bench.metrics_logger)
        context = replace(bench.context(), loggers=loggers)
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", synced.append)
            assert loop.TrainingLoop(context).run() is True
    assert len(watch.watching) == len(bench.metrics_logger.samples) == ITERATIONS
    assert median(watch.watching) < most * median(watch.training)
    assert synced == []
    groups = {name.split("/")[0] for sample in bench.metrics_logger.samples for name in sample.metrics}
    assert groups == {"charts", "losses"}, "analysed without being asked"
