"""What a soak calls wrong; and, at the published size, a short one for real."""

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from palaestra.core.errors import RunFailed
from tools.reliability import soak
from tools.reliability.soak import find_problems, growth, main
from tools.reliability.soak_audit import KINDS


def found(**changes):
    samples = [{"rss_mb": 70.0, "descriptors": 30}] * 9
    return {
        "problems": [],
        "saved": {"unreadable checkpoints": 0},
        "left": {"lanes left": []},
        "samples": samples,
    } | changes


def grown(key, by):
    plain = {"rss_mb": 70.0, "descriptors": 30}
    return [plain] * 6 + [{**plain, key: plain[key] + by}] * 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, []),
        ({"problems": ["kill_daemon: it is gone"]}, ["kill_daemon: it is gone"]),
        ({"saved": {"unreadable checkpoints": 2}}, ["unreadable checkpoints: 2"]),
        ({"left": {"lanes left": ["a", "b"], "processes left": []}}, ["lanes left: a, b"]),
        ({"samples": grown("rss_mb", 40)}, ["the daemon grew by 40 MB"]),
        ({"samples": grown("rss_mb", 20)}, []),
        ({"samples": grown("descriptors", 20)}, ["the daemon has 20 descriptors more"]),
    ],
)
def test_what_was_promised_and_is_not_so_is_reported(changes, words):
    assert find_problems(found(**changes)) == words


def test_growth_is_that_of_typical_values_and_one_peak_is_none():
    assert (
        growth([{"x": 1}, {"x": 1}, {"x": 1}, {"x": 9}, {"x": 2}, {"x": 2}, {"x": 900}, {"x": 2}, {"x": 2}], "x") == 1
    )
    assert growth([{"x": 5}], "x") == 0


class StandIn:
    """A services of nobody: its faults are counted, its ledger finds what it is told to."""

    def __init__(self, root=None, *, left=(), lost=(), faults=()):
        self.left, self.lost, self.faults, self.struck, self.audits = dict(left), lost, list(faults), 0, []
        self.viewers = [SimpleNamespace(frames=7)]
        self.run_audits = {"a": self}
        self.ids, self.root, self.daemon = {}, Path("nowhere"), SimpleNamespace(pid=2**22)  # higher than any
        self.killed = self.closed = False

    @property
    def found(self):
        return {kind: {"something"} if kind in self.lost else set() for kind in KINDS}

    def audit(self, *, whole=False):
        self.audits.append(whole)

    def open(self):
        pass

    def sample(self):
        return {"rss_mb": 70.0, "descriptors": 14}

    def restore(self):
        self.struck += 1
        if self.faults:
            self.faults.pop(0)()

    def close(self):
        self.closed = True
        return self.left

    def kill_everything(self):
        self.killed = True


@pytest.fixture
def locations(tmp_path, monkeypatch):
    monkeypatch.setattr(soak, "FAULTS", [lambda *_: None])
    monkeypatch.setattr(soak, "LEAST_PAUSE_SECONDS", 0.0)
    return ["--json", str(tmp_path / "new" / "soak.json"), "--curve", str(tmp_path / "pictures" / "soak.svg")]


def disturb(monkeypatch, locations, services, minutes="0.0005"):
    monkeypatch.setattr(soak, "SoakServices", lambda _: services)
    code = main(["--minutes", minutes, "--fault-seconds", "0", *locations])
    return code, json.loads(Path(locations[1]).read_text())


def test_a_soak_that_held_says_so_and_is_drawn(locations, monkeypatch, capsys):
    services = StandIn()
    code, summary = disturb(monkeypatch, locations, services)
    assert (code, summary["wrong"], summary["stopped by"]) == (0, [], "")
    assert len(summary["samples"]) == services.struck + 1 == sum(summary["faults"].values()) + 1
    assert services.audits == [False] * services.struck + [True], "after every fault, and all of it at the end"
    assert Path(locations[3]).read_text().startswith("<svg")
    assert "Nothing lost, nothing left behind" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("services", "word"),
    [
        (StandIn(left={"lanes left": ["lane-a"]}), "lanes left: lane-a"),
        (StandIn(lost=[KINDS[1]]), "saved work lost: 1"),
    ],
)
def test_what_is_left_or_lost_gives_the_exit_code(locations, monkeypatch, capsys, services, word):
    code, summary = disturb(monkeypatch, locations, services)
    assert (code, summary["wrong"]) == (1, [word])
    assert word in capsys.readouterr().out


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_soak_that_is_stopped_counts_what_there_is_and_says_how_far_it_came(
    locations, monkeypatch, capsys, number, code
):
    services = StandIn(faults=[lambda: None, lambda: os.kill(os.getpid(), number)])
    left, summary = disturb(monkeypatch, locations, services, minutes="60")
    assert (left, summary["stopped by"], services.struck) == (code, number.name, 2)
    assert services.closed
    assert services.audits[-1], "the whole of it"
    assert summary["wrong"] == []
    assert f"0.0 minutes (stopped by {number.name}, 60 were asked for): 2 faults" in capsys.readouterr().out


def test_what_was_lost_outweighs_who_stopped_it(locations, monkeypatch):
    services = StandIn(lost=[KINDS[0]], faults=[lambda: os.kill(os.getpid(), signal.SIGTERM)])
    assert disturb(monkeypatch, locations, services, minutes="60")[0] == 1


def test_a_second_signal_ends_it_at_once_and_what_was_reported_until_then_stays(locations, monkeypatch, capsys):
    def twice():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)

    services = StandIn(lost=[KINDS[0]], faults=[lambda: None, twice])
    code, summary = disturb(monkeypatch, locations, services, minutes="60")
    assert (code, services.closed, services.killed) == (143, False, True)
    assert (summary["saved"][KINDS[0]], len(summary["samples"])) == (1, 2)
    assert '"lost": 1' in capsys.readouterr().err


def test_what_does_not_come_back_ends_the_soak_and_is_counted_all_the_same(locations, monkeypatch):
    def fails():
        raise RunFailed("After 120 s it is still not so.")

    services = StandIn(faults=[fails])
    code, summary = disturb(monkeypatch, locations, services, minutes="60")
    assert (code, services.struck, services.closed, services.killed) == (1, 1, False, True)
    assert "After 120 s it is still not so." in summary["wrong"][0]
    assert summary["evidence"]["daemon"] == {}  # it was looked at, and is nobody
    assert services.audits == [False, True]


@pytest.mark.fault("X4")
@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_ten_minutes_of_faults_leave_everything_as_promised(tmp_path, figure, chaos_seed):
    result = soak.run(10.0, 10.0, chaos_seed, tmp_path)
    figure("faults", sum(result["faults"].values()))
    figure("frames seen", result["frames seen"])
    figure("MB the daemon grew", growth(result["samples"], "rss_mb"))
    assert result["wrong"] == []
