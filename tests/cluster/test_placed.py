"""What the driver makes of reports, and of their absence; Ray is on paper."""

import time

import pytest

from palaestra.cluster.placed import PlacedRank
from palaestra.cluster.rank import RankReport
from palaestra.workers.account import Account


class PaperRay:
    class exceptions:
        class RayError(Exception):
            pass

    def wait(self, references, timeout):
        return [reference for reference in references if reference.is_ready], []

    def get(self, reference):
        if isinstance(reference.value, Exception):
            raise reference.value
        return reference.value


class Reference:
    def __init__(self, value, is_ready=True):
        self.value, self.is_ready = value, is_ready


class Method:
    def __init__(self, answers):
        self.calls, self.answers = [], answers

    def remote(self, *words):
        self.calls.append(words)
        return self.answers.pop(0) if self.answers else Reference(None, is_ready=False)


class PaperActor:
    def __init__(self, *reports):
        self.report, self.signal, self.kill = Method(list(reports)), Method([]), Method([])


def placed(*reports):
    actor = PaperActor(*reports)
    return PlacedRank(PaperRay(), actor, 1, "there"), actor


def test_output_goes_to_standard_error_as_it_is(capfdbinary):
    rank, _ = placed(Reference(RankReport(1.0, 7, "schön\n".encode())))
    rank.look()
    assert rank.code is None
    assert rank.pid == 7
    assert capfdbinary.readouterr() == (b"", "schön\n".encode())


def test_times_of_another_machine_are_told_by_our_clock():
    there = 1_000_000.0
    account = {"exit_code": 1, "at": there - 3, "error": "fell"}
    rank, _ = placed(Reference(RankReport(there, 7, b"", 1, there - 2, account)))
    before = time.monotonic()
    rank.look()
    assert rank.code == 1
    assert rank.account.error == "fell"
    assert before - 3.001 <= rank.account.at <= time.monotonic() - 3 + 0.001
    assert rank.ended_at == pytest.approx(rank.account.at + 1, abs=1e-3)


def test_a_machine_that_does_not_answer_is_not_waited_for_and_asked_once():
    rank, actor = placed(Reference(None, is_ready=False))
    rank.look()
    rank.look()
    assert rank.code is None
    assert len(actor.report.calls) == 1


def test_a_lost_actor_is_told_with_its_machine():
    rank, _ = placed(Reference(PaperRay.exceptions.RayError("\nThe actor died.\nmore")))
    rank.look()
    assert rank.code == 1
    assert rank.account == Account(1, rank.ended_at, error="Ray lost it on there: The actor died.")


def test_one_that_we_ended_is_not_its_own_cause():
    rank, actor = placed(Reference(PaperRay.exceptions.RayError("gone")))
    rank.kill()
    rank.kill()
    rank.look()
    assert len(actor.kill.calls) == 1
    assert rank.was_killed
    assert rank.account is None


def test_signals_go_out_with_the_next_look_in_order_and_once():
    rank, actor = placed()
    rank.send_signal(2)
    rank.send_signal(15)
    assert actor.signal.calls == []
    rank.look()
    rank.look()
    assert actor.signal.calls == [(2,), (15,)]
