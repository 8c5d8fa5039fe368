import json
import sys

import matmul_agent
import pytest

from palaestra.apps.matmul.discover import parse_settings


def test_the_timed_command_is_valid():
    arguments = matmul_agent.command("2x2x2", "gf2", 3, 600, matmul_agent.UNTRAINED)
    config, _ = parse_settings(arguments[4:-1])
    assert (config.method, config.seed, config.seconds) == ("agent", 3, 600)
    assert (config.agent.warmup, config.agent.updates) == (0, 0)
    assert config.agent.demonstrations == "synthetic"


@pytest.mark.full
def test_a_small_run_writes_its_results(tmp_path, monkeypatch, capsys):
    arguments = ["matmul_agent", "--seeds", "1", "--seconds", "120", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", arguments)
    matmul_agent.main()
    assert "1 of 1 seeds" in capsys.readouterr().out
    assert json.loads((tmp_path / "matmul-agent.json").read_text())["rows"][0]["rank"] == 7
