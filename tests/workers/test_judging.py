import json
from contextlib import suppress
from functools import partial

import pytest

from palaestra.envs.make import make_env
from palaestra.evaluation.plan import make_plan
from palaestra.evaluation.play import play
from palaestra.training.group import Group
from palaestra.workers.judging import judge


class Dealt(Group):
    """One rank of two; what the other gave is put in by hand."""

    world_size = 2

    def __init__(self, rank: int, others: list[bytes]) -> None:
        self.rank = rank
        self.others = others
        self.given = b""

    def gather_bytes(self, data):
        self.given = data
        return [data, *self.others] if self.is_leader else []


@pytest.fixture
def plan(bench):
    return make_plan("x:1", bench.state.config.env, episodes=5, seed=7)


def test_alone_it_is_the_evaluation_that_everybody_makes(bench, plan):
    report = judge(plan, bench.state, bench.session, bench.clock)
    assert report.complete
    assert report.episodes == play(plan, bench.state.agent, partial(make_env, bench.state.config.env)).episodes


def test_dealt_to_two_ranks_it_is_the_same_episode_by_episode(bench, plan):
    whole = judge(plan, bench.state, bench.session, bench.clock)
    follower = Dealt(1, [])
    bench.state.group = follower
    assert judge(plan, bench.state, bench.session, bench.clock) is None
    bench.state.group = Dealt(0, [follower.given])
    assert judge(plan, bench.state, bench.session, bench.clock).episodes == whole.episodes


@pytest.mark.parametrize("rank", [0, 1])
def test_every_rank_plays_its_share_and_nobody_waits_for_one_that_plays_all(bench, plan, rank):
    """Trap 16."""
    none_from_the_other = json.dumps([{}] * 3).encode()
    bench.state.group = Dealt(rank, [none_from_the_other])
    with suppress(TypeError):  # the leader cannot make episodes of what the other gave
        judge(plan, bench.state, bench.session, bench.clock)
    assert [row["seed"] for row in json.loads(bench.state.group.given)] == [[7, 9, 11], [8, 10]][rank]


def test_a_long_evaluation_beats(bench, plan, monkeypatch):
    """Trap 15: whoever looks at the journal sees that the run is alive."""
    monkeypatch.setattr(
        bench.clock,
        "monotonic",
        lambda: setattr(bench.clock, "seconds", bench.clock.seconds + 6) or bench.clock.seconds,
    )
    judge(plan, bench.state, bench.session, bench.clock)
    beats = bench.entries("run.heartbeat")
    assert beats
    assert {beat.data["phase"] for beat in beats} == {"evaluate"}
