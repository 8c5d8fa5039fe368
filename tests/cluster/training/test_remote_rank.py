"""What the driver makes of reports, and of their absence; Ray is on paper."""

import os
import time

import pytest

from palaestra.cluster.training.rank_actor import RankReport
from palaestra.cluster.training.remote_rank import RemoteRank
from palaestra.cluster.training.run_changes import Appended
from palaestra.cluster.training.run_sender import RunReport
from palaestra.runner.launcher import ExitReport


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
    def __init__(self, responses):
        self.calls, self.responses = [], responses

    def remote(self, *arguments, **options):
        self.calls.append(arguments)
        return self.responses.pop(0) if self.responses else Reference(None, is_ready=False)


class PaperActor:
    def __init__(self, *reports):
        self.report, self.signal, self.kill = Method(list(reports)), Method([]), Method([])


def placed(*reports, **options):
    actor = PaperActor(*reports)
    return RemoteRank(PaperRay(), actor, 1, "there", **options), actor


def test_output_goes_to_standard_error_as_it_is(capfdbinary):
    rank, _ = placed(Reference(RankReport(1.0, 7, "schön\n".encode())))
    rank.poll()
    assert rank.code is None
    assert rank.pid == 7
    assert capfdbinary.readouterr() == (b"", "schön\n".encode())


def test_times_of_another_machine_are_reported_by_our_clock():
    there = 1_000_000.0
    exit_report = {"exit_code": 1, "at": there - 3, "error": "fell"}
    rank, _ = placed(Reference(RankReport(there, 7, b"", True, 1, there - 2, exit_report)))
    before = time.monotonic()
    rank.poll()
    assert rank.code == 1
    assert rank.exit_report.error == "fell"
    assert before - 3.001 <= rank.exit_report.at <= time.monotonic() - 3 + 0.001
    assert rank.ended_at == pytest.approx(rank.exit_report.at + 1, abs=1e-3)


def test_a_machine_that_does_not_reply_is_not_waited_for_and_requested_once():
    rank, actor = placed(Reference(None, is_ready=False))
    rank.poll()
    rank.poll()
    assert rank.code is None
    assert len(actor.report.calls) == 1


def test_a_lost_actor_is_reported_with_its_machine():
    rank, _ = placed(Reference(PaperRay.exceptions.RayError("\nThe actor died.\nmore")))
    rank.poll()
    assert rank.code == 1
    assert rank.exit_report == ExitReport(1, rank.ended_at, error="Ray lost it on there: The actor died.")


def test_one_that_we_ended_is_not_its_own_cause():
    rank, actor = placed(Reference(PaperRay.exceptions.RayError("gone")))
    rank.kill()
    rank.kill()
    rank.poll()
    assert len(actor.kill.calls) == 1
    assert rank.was_killed
    assert rank.exit_report is None


def test_signals_go_out_with_the_next_poll_in_order_and_once():
    rank, actor = placed()
    rank.send_signal(2)
    rank.send_signal(15)
    assert actor.signal.calls == []
    rank.poll()
    rank.poll()
    assert actor.signal.calls == [(2,), (15,)]


def test_without_a_sign_of_life_it_counts_as_lost_after_its_limit(monkeypatch):
    rank, _ = placed(Reference(None, is_ready=False), node_timeout=20.0)
    now = time.monotonic()
    for second in range(1, 23):
        monkeypatch.setattr("palaestra.cluster.training.remote_rank.time.monotonic", lambda second=second: now + second)
        rank.poll()
        assert (rank.code is None) == (second <= 20)
    assert rank.is_lost
    assert "no sign of life for 20 s" in rank.exit_report.error


def test_time_in_which_the_driver_itself_stood_still_does_not_count(monkeypatch):
    rank, _ = placed(Reference(None, is_ready=False), node_timeout=20.0)
    now = time.monotonic()
    rank.poll()
    monkeypatch.setattr("palaestra.cluster.training.remote_rank.time.monotonic", lambda: now + 3600)
    rank.poll()
    assert rank.code is None


class PaperMirror:
    root, problem = "/driver/runs", "no room"

    def __init__(self, room=True):
        self.room, self.is_behind, self.applied, self.losses = room, False, [], []

    def apply(self, report, there):
        self.applied.append((report, there))
        self.is_behind = not self.room

    def retry(self):
        self.is_behind = not self.room

    def lose(self, reason):
        self.losses.append(reason)


def mirrored(mirror, *reports):
    rank, actor = placed(*reports, mirror=mirror)
    rank.there = "/tmp/over-there"
    return rank, actor


def test_of_a_run_on_another_disk_the_copy_is_updated_and_every_text_names_it(capfdbinary):
    mirror = PaperMirror()
    report = {"exit_code": 3, "at": 1.0, "directory": "/tmp/over-there/ID", "error": "See /tmp/over-there/ID/x."}
    rank, _ = mirrored(mirror, Reference(RankReport(1.0, 7, b"in /tmp/over-there\n", True, 3, 1.0, report, "news")))
    rank.poll()
    assert mirror.applied == [("news", "/tmp/over-there")]
    assert (rank.exit_report.directory, rank.exit_report.error) == ("/driver/runs/ID", "See /driver/runs/ID/x.")
    assert capfdbinary.readouterr().err == b"in /driver/runs\n"
    assert rank.pid == os.getpid()


def test_a_full_disk_of_the_driver_holds_up_the_end_until_there_is_room(monkeypatch):
    mirror = PaperMirror(room=False)
    rank, _ = mirrored(mirror, Reference(RankReport(1.0, 7, b"", True, 0, 1.0, None, "news")))
    rank.poll()
    assert rank.code is None
    mirror.room = True
    rank._retry_at = 0.0
    rank.poll()
    assert rank.code == 0


def test_a_loss_is_written_into_the_copy():
    mirror = PaperMirror()
    rank, _ = mirrored(mirror, Reference(PaperRay.exceptions.RayError("The node died.")))
    rank.poll()
    assert rank.is_lost
    assert mirror.losses == ["Ray lost it on there: The node died."]


def test_a_process_that_has_ended_is_not_ended_again_while_it_has_more_to_report():
    rank, actor = placed(Reference(RankReport(1.0, 7, b"", has_ended=True)))
    rank.poll()
    rank.kill()
    assert actor.kill.calls == []
    assert not rank.was_killed


def test_the_log_of_a_follower_waits_until_the_run_is_here(tmp_path):
    run_id = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    lines = [RunReport(run_id, (Appended("logs/rank_1.log", text),)) for text in (b"one\n", b"two\n")]
    rank, _ = placed(*(Reference(RankReport(1.0, 7, run=line)) for line in lines), runs_root=tmp_path)
    rank.poll()
    (tmp_path / run_id / "logs").mkdir(parents=True)
    rank.poll()
    assert (tmp_path / run_id / "logs" / "rank_1.log").read_bytes() == b"one\ntwo\n"
