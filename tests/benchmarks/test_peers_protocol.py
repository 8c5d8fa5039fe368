"""What a peer says, with a clock that is moved by hand."""

import json
from dataclasses import replace

import pytest
from peers.protocol import JOB, Job, Meter, read_job
from peers.settings import CLEANRL, HALFCHEETAH_TWO, SOLVE


class Listener:
    def __init__(self):
        self.now, self.lines = 100.0, []

    def say(self, event, **fields):
        self.lines.append({"event": event, **fields})

    def of(self, event):
        return [line for line in self.lines if line["event"] == event]


@pytest.fixture
def received():
    return Listener()


def meter(setting, received, seconds=10.0):
    return Meter(Job(setting, seconds, seed=1, began=90.0), received.say, lambda: received.now)


def test_a_job_arrives_as_it_was_sent(monkeypatch):
    job = Job(CLEANRL, 3.5, seed=7, began=12.25)
    monkeypatch.setenv(JOB, job.text())
    assert read_job() == job


def test_the_first_update_reports_how_long_starting_took(received):
    peer = meter(CLEANRL, received)
    received.now = 94.5
    peer.update(512, [])
    received.now = 95.0
    peer.update(1024, [])
    assert received.of("started") == [{"event": "started", "seconds": 4.5, "steps": 512}]


def test_steps_are_counted_from_the_end_of_warming_up(received):
    peer = meter(replace(CLEANRL, warm_up_updates=8), received)
    for number in range(1, 12):  # eight updates are warming up, three are counted
        received.now = 100.0 + number * number
        peer.update(512 * number, [])
    peer.finish()
    assert received.of("measured") == [{"event": "measured", "steps": 3 * 512, "seconds": 11.0**2 - 8.0**2}]


def test_where_nothing_is_warmed_up_the_clock_starts_before_the_first_rollout(received):
    peer = meter(HALFCHEETAH_TWO, received)
    peer.begin()
    received.now += 20.0
    assert not peer.update(32_768, [])  # longer than the ten seconds already
    peer.finish()
    assert received.of("measured") == [{"event": "measured", "steps": 32_768, "seconds": 20.0}]


def test_a_peer_stops_when_its_seconds_are_over_or_its_steps_are_taken(received):
    peer = meter(CLEANRL, received)
    assert peer.update(CLEANRL.warm_up_steps, [])
    received.now += 9.9
    assert peer.update(CLEANRL.warm_up_steps + 512, [])
    received.now += 0.2
    assert not peer.update(CLEANRL.warm_up_steps + 1024, [])
    assert not meter(CLEANRL, received).update(CLEANRL.total_steps, [])


def test_solved_is_reported_once_at_the_twentieth_good_episode(received):
    peer = meter(SOLVE, received)
    assert peer.update(256, [500.0] * 19)
    received.now = 101.5
    assert not peer.update(512, [500.0])
    peer.update(768, [500.0] * 30)
    assert received.of("solved") == [{"event": "solved", "seconds": 11.5, "steps": 512}]


def test_one_bad_episode_among_twenty_is_forgiven_only_as_far_as_the_mean_reaches(received):
    peer = meter(SOLVE, received)
    assert peer.update(256, [0.0] + [499.0] * 19)  # a mean of 474.05
    assert not peer.update(512, [499.0])


def test_a_peer_that_solves_nothing_has_no_limit_of_seconds_where_solving_is_the_question(received):
    peer = meter(SOLVE, received, seconds=1.0)
    assert peer.update(SOLVE.warm_up_steps, [20.0])
    received.now += 1000.0
    assert peer.update(SOLVE.warm_up_steps + 256, [20.0])


def test_what_is_used_is_reported_at_the_end_and_lines_are_json(capsys):
    peer = Meter(Job(CLEANRL, 1.0, 1, 0.0), torch="2")
    peer.finish()
    versions, used = map(json.loads, capsys.readouterr().out.splitlines())
    assert versions["torch"] == "2"
    assert used["memory_mb"] > 1
    assert used["cpu_seconds"] > 0
