"""A phase in which no step is taken must not look like death."""

from palaestra.evaluation.plan import make_plan
from palaestra.runs.status import read_record
from palaestra.workers.judging import judge


def test_the_heart_beats_while_episodes_are_judged(bench, clock, config):
    """Every episode takes eleven seconds here; the journal hears of each of them."""
    plan = make_plan("here", config.env, episodes=3, seed=5, deterministic=True)
    before = len(bench.entries("run.heartbeat"))
    moving = type("Slow", (), {"now": clock.now, "monotonic": lambda _: tick(clock)})()
    bench.session._clock = moving
    report = judge(plan, bench.state, bench.session, clock)
    assert report is not None
    assert len(report.episodes) == 3
    beats = bench.entries("run.heartbeat")[before:]
    assert [beat.data["phase"] for beat in beats] == ["evaluate"] * 3
    assert read_record(bench.directory).updated_at == clock.now()


def tick(clock) -> float:
    clock.seconds += 11.0
    return clock.seconds
