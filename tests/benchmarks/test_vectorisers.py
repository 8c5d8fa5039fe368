import pytest

vectorisers = pytest.importorskip("vectorisers")  # wants MuJoCo


def rounds(*speeds):
    return [{"per_second": speed, "cpu_microseconds": 100.0} for speed in speeds]


def test_a_ratio_is_taken_within_its_round():
    """A machine that is three times as fast in one round changes no ratio."""
    found = {vectorisers.BASELINE: rounds(10, 30, 10), "ours": rounds(40, 120, 40)}
    rows = {row["way"]: row for row in vectorisers.summary(found)}
    assert rows["ours"]["over_async"] == 4.0
    assert (rows["ours"]["per_second"], rows["ours"]["slowest"], rows["ours"]["fastest"]) == (40, 40, 120)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_small_try_measures_every_way(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["x", "--envs", "2", "--seconds", "0.05", "--rounds", "1", "--out", str(tmp_path)])
    vectorisers.main()
    text = (tmp_path / "vectorisers.md").read_text()
    assert text in capsys.readouterr().out
    for name in vectorisers.ways(2):
        assert f"| {name} |" in text
