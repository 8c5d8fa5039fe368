import json
import sys

import arena_learning
import pytest

pytest.importorskip("palaestra.apps.arena.native_core", reason="the reference would take minutes")


@pytest.mark.full
def test_a_claim_is_tried_on_both_sides_and_reported_with_its_interval(tmp_path, monkeypatch, capsys):
    arguments = ["--claims", "team", "--seeds", "1,2", "--steps", "12288", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["arena_learning.py", *arguments])
    arena_learning.main()
    found = json.loads((tmp_path / "arena-learning.json").read_text())
    assert len(found) == 4
    page = (tmp_path / "arena-team.md").read_text()
    assert page in capsys.readouterr().out
    for side in ("team_share 1", "team_share 0"):
        values = [found[f"team | {side} | seed {seed} | 12288 steps"]["hearts"] for seed in (1, 2)]
        assert f"| {side} | {sum(values) / 2:.2f} ±" in page


def test_the_two_sides_of_a_claim_differ_in_one_setting_only():
    team = arena_learning.CLAIMS["team"]
    ours, other = dict(team.ours["env.kwargs"]), dict(team.other["env.kwargs"])
    assert (ours.pop("team_share"), other.pop("team_share")) == (1.0, 0.0)
    assert ours == other
    assert {**team.ours, "env.kwargs": 0} == {**team.other, "env.kwargs": 0}
