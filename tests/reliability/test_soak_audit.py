"""What a soak calls lost: each kind is planted in a run's directory and must be seen, and only it."""

import os

import pytest

from palaestra.checkpoints.durable import commit, uncommit
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.episodes import EpisodeResult
from palaestra.core.metrics_logger import Sample
from palaestra.evaluation.summary import append_batch
from palaestra.runs.directory import RunDirectory
from palaestra.runs.metrics.writer import MetricsWriter
from tools.reliability import soak_audit
from tools.reliability.soak_audit import (
    EVALUATIONS,
    KINDS,
    LOST,
    MISCOUNTED,
    MISSING,
    UNREAD,
    UNREADABLE,
    RunAudit,
    losses,
    miscounts,
)

ITERATION = 100  # steps


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setattr(soak_audit, "SECOND_LOOK_SECONDS", 0.0)
    directory = RunDirectory(tmp_path / "01RUN")
    directory.checkpoints.mkdir(parents=True)
    save(directory, 1)
    save(directory, 2)
    with MetricsWriter(directory.metrics_file) as writer:
        for iteration in range(1, 7):
            writer.write(sample(iteration))
    append_batch(directory, {"mean": 1.0})
    append_batch(directory, {"mean": 2.0})
    return directory


@pytest.fixture
def audit(directory):
    audit = RunAudit(directory)
    audit.audit()
    assert found(audit) == {}
    return audit


def save(directory, epoch):
    reported = Checkpoint(epoch, epoch * ITERATION, 1.0, "01RUN", "run", 1.0, {}, {}, {})
    commit(directory.checkpoints, epoch, {f"model_{epoch:04d}.safetensors": bytes(1000)}, reported)


def sample(iteration):
    """The only environment has ended an episode with the iteration."""
    done = (episode(0, ITERATION),)
    return Sample(iteration * ITERATION, {"charts/learning_rate": 0.1}, episodes=done, at=float(iteration))


def episode(index, length):
    return EpisodeResult(seed=1, total_reward=5.0, length=length, terminated=True, env_index=index, env_step=7)


def found(audit):
    return {kind: count for kind, count in losses([audit]).items() if count}


def weights(directory, epoch):
    return directory.checkpoints / f"model_{epoch:04d}.safetensors"


def test_more_of_everything_and_what_retention_removes_is_no_loss(audit, directory):
    save(directory, 3)
    uncommit(directory.checkpoints, 1)
    with MetricsWriter(directory.metrics_file) as writer:
        writer.write(sample(7))
    append_batch(directory, {"mean": 3.0})
    audit.audit()
    audit.audit(whole=True)
    assert found(audit) == {}


def test_a_byte_that_changed_is_observed_although_the_size_is_the_same(audit, directory):
    weights(directory, 1).write_bytes(bytes(999) + b"x")
    audit.audit()
    audit.audit()
    assert found(audit) == {UNREADABLE: 1}


def test_a_newest_checkpoint_that_is_gone_is_lost_work(audit, directory):
    uncommit(directory.checkpoints, 2)
    audit.audit()
    save(directory, 2)
    audit.audit()
    assert found(audit) == {LOST: 1}, "also when it comes back"


def test_what_was_cut_on_purpose_is_neither_unreadable_nor_lost(audit, directory):
    audit.cut(2)
    os.truncate(weights(directory, 2), 10)
    audit.audit()
    assert found(audit) == {}


def test_the_one_before_what_was_cut_is_still_replied_to_for(audit, directory):
    audit.cut(2)
    os.truncate(weights(directory, 2), 10)
    uncommit(directory.checkpoints, 1)
    audit.audit()
    assert found(audit) == {LOST: 1}


def test_once_saved_anew_it_is_replied_to_for_again(audit, directory):
    audit.cut(2)
    save(directory, 2)
    audit.audit()
    os.truncate(weights(directory, 2), 10)
    audit.audit()
    assert found(audit) == {UNREADABLE: 1, LOST: 1}


def test_an_iteration_without_its_metrics_is_missed(audit, directory):
    with MetricsWriter(directory.metrics_file) as writer:
        writer.rewind(3 * ITERATION)
        for iteration in (5, 6, 7):
            writer.write(sample(iteration))
    audit.audit()
    assert found(audit) == {MISSING: 1}
    assert "between the steps 300 and 500" in next(iter(audit.found[MISSING]))


@pytest.mark.parametrize(
    ("lengths", "is_right"),
    [
        ([100] * 10, True),
        ([100] * 9 + [1], True),  # and in one of 99 steps
        ([100] * 9, True),  # and in one that ends with its next step
        ([100] * 8 + [99], False),  # none is as long as the 101 that are missing
        ([100] * 10 + [1], False),
    ],
)
def test_the_steps_of_an_environment_are_those_of_its_episodes_but_for_the_one_it_is_in(lengths, is_right):
    episodes = [episode(0, 100)] * 10 + [episode(1, length) for length in lengths]
    assert (miscounts(episodes, 2 * 1000) == []) == is_right


def test_only_the_whole_audit_goes_back_before_the_oldest_checkpoint(audit, directory):
    save(directory, 6)
    for epoch in (1, 2):
        uncommit(directory.checkpoints, epoch)
    audit.audit()
    with MetricsWriter(directory.metrics_file) as writer:
        writer.write(sample(1))
    audit.audit()
    assert found(audit) == {}
    audit.audit(whole=True)
    assert found(audit) == {MISCOUNTED: 1}


@pytest.mark.parametrize("name", ["metrics.db", "eval_summary.json"])
def test_a_file_that_cannot_be_read_is_a_finding(audit, directory, name):
    (directory.path / name).write_bytes(b"torn" * 300)
    audit.audit()
    assert found(audit) == {UNREAD: 1}


def test_an_evaluation_that_is_gone_is_observed(audit, directory):
    directory.eval_summary_file.unlink()
    append_batch(directory, {"mean": 2.0})
    audit.audit()
    assert found(audit) == {EVALUATIONS: 1}


def test_losses_are_added_over_the_runs(audit, directory):
    uncommit(directory.checkpoints, 2)
    audit.audit()
    assert losses([audit, audit]) == {kind: 2 * (kind == LOST) for kind in KINDS}
