from dataclasses import replace

import pytest

from palaestra.cluster.evaluation.dispatch import LARGEST_SHARE, RETRIES, Dispatch
from palaestra.cluster.evaluation.messages import PlayedShare, Refusal, Worker
from palaestra.core.episodes import EpisodeResult
from palaestra.core.evaluation import EvaluationPlan, EvaluationRequest


def request_of(*counts):
    plans = tuple(
        EvaluationPlan("run:3", "CartPole-v1", {}, tuple(range(count)), simulation=f"s{number}")
        for number, count in enumerate(counts)
    )
    return EvaluationRequest("run", "name", 3, 300, "ab" * 32, plans)


def all_work(dispatch, processors=2):
    return list(iter(lambda: dispatch.next(processors), None))


def played(work):
    return PlayedShare(tuple(EpisodeResult(seed, float(seed), 1, True) for seed in work.plan.seeds), 0.5)


@pytest.mark.parametrize(("episodes", "processors", "shares"), [(20, 2, 4), (3, 64, 3), (1000, 2, 63), (1, 1, 1)])
def test_shares_are_small_enough_that_all_are_busy_and_no_larger_than_can_be_lost(episodes, processors, shares):
    dispatch = Dispatch()
    dispatch.add(1, request_of(episodes))
    work = all_work(dispatch, processors)
    assert [seed for one in work for seed in one.plan.seeds] == list(range(episodes))
    assert len(work) == shares
    assert max(len(one.plan.seeds) for one in work) <= LARGEST_SHARE


def test_where_much_waits_a_small_plan_is_not_cut():
    dispatch = Dispatch()
    for number in range(100):
        dispatch.add(number, request_of(5))
    assert len(dispatch.next(2).plan.seeds) == 5


def test_a_request_is_done_when_its_last_share_is():
    dispatch = Dispatch()
    dispatch.add(1, request_of(2, 1))
    first, second, third = all_work(dispatch)
    assert [message["simulation"] for message in dispatch.played(third, played(third))] == ["s1"]
    assert len(dispatch.played(first, played(first))) == 1
    last, done = dispatch.played(second, played(second))
    assert [row["seed"] for row in last["episodes"]] == [1]
    assert (done["done"], done["error"], done["retries"], len(dispatch)) == (True, "", 0, 0)


def test_a_lost_share_is_played_again_three_times_and_then_the_rest_is_a_partial_result():
    dispatch = Dispatch()
    dispatch.add(1, request_of(2))
    good, bad = all_work(dispatch)
    dispatch.played(good, played(good))
    for _ in range(RETRIES):
        assert dispatch.lost(bad, "the worker was lost.") == []
        bad = dispatch.next(2)
        assert bad.plan.seeds == (1,)
    (done,) = dispatch.lost(bad, "the worker was lost.")
    assert done["retries"] == RETRIES == 3
    assert "1 episodes of 's0' from seed 1 on failed 4 times: the worker was lost." in done["error"]
    assert done["exit_code"] == 1


def test_a_refusal_ends_the_whole_request_and_no_other():
    dispatch = Dispatch()
    dispatch.add(1, request_of(4))
    dispatch.add(2, request_of(1))
    first, second = dispatch.next(2), dispatch.next(2)
    (done,) = dispatch.refused(first, Refusal("Not with this policy.", "Take another.", 2))
    assert (done["id"], done["error"], done["hint"], done["exit_code"]) == (
        1,
        "Not with this policy.",
        "Take another.",
        2,
    )
    assert dispatch.played(second, played(second)) == []  # came too late
    assert dispatch.lost(second, "gone") == []
    assert [work.number for work in all_work(dispatch)] == [2]


def test_requests_are_served_in_the_order_in_which_they_came():
    dispatch = Dispatch()
    for number in (5, 3, 4):
        dispatch.add(number, request_of(1))
    assert [work.number for work in all_work(dispatch)] == [5, 3, 4]


def test_a_suspected_share_is_dealt_again_only_when_nothing_else_waits_and_counts_once():
    dispatch = Dispatch()
    dispatch.add(1, request_of(4))
    first = dispatch.next(2)
    dispatch.suspect(first)
    rest = [dispatch.next(2) for _ in range(3)]
    assert first not in rest
    copy = dispatch.next(2)
    assert (copy.index, copy.plan) == (first.index, first.plan)
    assert dispatch.next(2) is None, "one copy is enough"
    for work in rest:
        dispatch.played(work, played(work))
    rows, done = dispatch.played(copy, played(copy))
    assert [row["seed"] for row in rows["episodes"]] == [0]
    assert (done["done"], done["retries"]) == (True, 1)
    assert dispatch.played(first, played(first)) == [], "the late one is dropped"
    assert dispatch.lost(first, "gone") == []


def test_a_suspected_share_that_is_replied_to_meanwhile_is_not_played_twice():
    dispatch = Dispatch()
    dispatch.add(1, request_of(2))
    first, second = all_work(dispatch)
    dispatch.suspect(first)
    dispatch.played(first, played(first))
    assert dispatch.next(2) is None
    assert dispatch.played(second, played(second))[-1]["retries"] == 0


def test_a_share_is_dealt_again_when_its_last_copy_is_lost_and_not_before():
    dispatch = Dispatch()
    dispatch.add(1, request_of(1))
    first = dispatch.next(2)
    dispatch.suspect(first)
    copy = dispatch.next(2)
    assert dispatch.lost(first, "the node died.") == []
    assert dispatch.next(2) is None, "its copy is still out"
    assert dispatch.lost(copy, "that one too.") == []
    again = dispatch.next(2)
    assert (again.index, again.attempt) == (first.index, 1)


def test_a_suspected_share_that_ray_reports_lost_is_not_dealt_twice():
    dispatch = Dispatch()
    dispatch.add(1, request_of(1))
    first = dispatch.next(2)
    dispatch.suspect(first)
    dispatch.lost(first, "the node died.")
    assert dispatch.next(2).attempt == 1
    assert dispatch.next(2) is None


def test_what_a_node_that_cannot_be_used_gives_back_costs_no_attempt():
    dispatch = Dispatch()
    dispatch.add(1, request_of(1))
    work = dispatch.next(2)
    for _ in range(RETRIES + 2):
        dispatch.returned(work)
        work = dispatch.next(2)
        assert work.attempt == 0
    assert dispatch.played(work, played(work))[-1]["error"] == ""


def test_code_that_was_accepted_is_in_the_result_by_host():
    dispatch = Dispatch()
    dispatch.add(1, request_of(2))
    first, second = all_work(dispatch)
    dispatch.played(first, replace(played(first), worker=Worker("b", "id")), ["palaestra/envs/make.py"])
    done = dispatch.played(second, replace(played(second), worker=Worker("a", "id")))[-1]
    assert done["code_differences"] == {"b": ["palaestra/envs/make.py"]}
