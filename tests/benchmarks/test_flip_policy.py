import json
import sys

import flip_policy
import pytest

from palaestra.apps.matmul.schemes.factorization import Format
from palaestra.apps.matmul.search.flip_guided_walk import IS_COMPILED, UNIFORM_WEIGHTS


def test_only_walks_that_reached_the_rank_count_as_reached():
    cut = flip_policy.walks(Format(2, 2, 2), UNIFORM_WEIGHTS, 3, 1)
    assert (cut["reached"], cut["median_flips"], cut["rank"]) == (0, 1, 7)


def test_the_table_names_the_worst_seed():
    rows = [{"formats": {"2x2x2": {"median_flips": flips}}} for flips in (100, 300, 200)]
    text = flip_policy.table({"random": {"2x2x2": {"median_flips": 900}}, "seeds": rows})
    assert text.splitlines()[-1] == "| 2x2x2 | 900 | 200 | 300 | 0.33 |"


@pytest.mark.full
@pytest.mark.skipif(not IS_COMPILED, reason="in Python this takes minutes")
def test_a_small_run_writes_its_results(tmp_path, monkeypatch, capsys):
    arguments = ["flip_policy", "--seeds", "1", "--walks", "5", "--formats", "2x2x2", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", arguments)
    flip_policy.main()
    assert "| 2x2x2 |" in capsys.readouterr().out
    assert json.loads((tmp_path / "flip-policy.json").read_text())["seeds"][0]["seed"] == 1
