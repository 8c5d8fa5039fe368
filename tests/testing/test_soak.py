"""What a soak calls wrong; and, at the published size, a short one for real."""

import json

import pytest

from palaestra.testing import soak
from palaestra.testing.soak import growth, main, verdicts


def found(**changes):
    samples = [{"rss_mb": 70.0, "descriptors": 30}] * 9
    return {
        "problems": [],
        "saved": {"unreadable checkpoints": 0},
        "left": {"lanes left": 0},
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
        ({"left": {"lanes left": 1, "processes left": 0}}, ["lanes left: 1"]),
        ({"samples": grown("rss_mb", 40)}, ["the daemon grew by 40 MB"]),
        ({"samples": grown("rss_mb", 20)}, []),
        ({"samples": grown("descriptors", 20)}, ["the daemon has 20 descriptors more"]),
    ],
)
def test_what_was_promised_and_is_not_so_is_said(changes, words):
    assert verdicts(found(**changes)) == words


def test_growth_is_that_of_typical_values_and_one_peak_is_none():
    assert (
        growth([{"x": 1}, {"x": 1}, {"x": 1}, {"x": 9}, {"x": 2}, {"x": 2}, {"x": 900}, {"x": 2}, {"x": 2}], "x") == 1
    )
    assert growth([{"x": 5}], "x") == 0


def test_the_exit_code_tells_and_the_json_has_everything(tmp_path, monkeypatch, capsys):
    told = {"faults": {"kill_daemon": 3}, "frames seen": 7, "wrong": ["lanes left: 1"], "minutes": 0.0, "seed": 0}
    told["samples"] = [{"second": 0.0, "fault": "", "rss_mb": 70.0, "descriptors": 14}]
    monkeypatch.setattr(soak, "run", lambda *_: told)
    places = ["--json", str(tmp_path / "new" / "soak.json"), "--curve", str(tmp_path / "pictures" / "soak.svg")]
    assert main(["--minutes", "0", *places]) == 1
    assert json.loads((tmp_path / "new" / "soak.json").read_text()) == told
    assert (tmp_path / "pictures" / "soak.svg").read_text().startswith("<svg")
    assert "lanes left: 1" in capsys.readouterr().out


@pytest.mark.fault("X4")
@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_ten_minutes_of_faults_leave_everything_as_promised(tmp_path, figure, chaos_seed):
    result = soak.run(10.0, 10.0, chaos_seed, tmp_path)
    figure("faults", sum(result["faults"].values()))
    figure("frames seen", result["frames seen"])
    figure("MB the daemon grew", growth(result["samples"], "rss_mb"))
    assert result["wrong"] == []
