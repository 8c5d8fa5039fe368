"""The command, with peers that train nothing."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "peers.py"
SAYS = """
import json, os
speed = {speed}
for line in (
    {{"event": "versions", "python": "3.11"}},
    {{"event": "started", "seconds": 0.5, "steps": 512}},
    {{"event": "measured", "steps": speed * 2, "seconds": 2.0}},
):
    print(json.dumps(line))
"""


@pytest.fixture
def command(monkeypatch, tmp_path):
    """Run the command with words; ours is sixty times as fast as the others."""
    spec = importlib.util.spec_from_file_location("peers_command", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pythons = {name: fake_python(tmp_path, name) for name in ("palaestra", "sb3")}
    pythons["eager"] = Path("/bin/false")

    def find(wanted, _venvs):
        found = {peer.name: pythons[peer.name] for peer in wanted if peer.name in pythons}
        return found, {peer.name: "it cannot be installed" for peer in wanted if peer.name not in pythons}

    def run(*arguments):
        monkeypatch.setattr(module, "find_pythons", find)
        monkeypatch.setattr(module, "compile_ours", lambda: None)
        monkeypatch.setattr(sys, "argv", ["peers.py", *arguments, "--out", str(tmp_path / "out")])
        module.main()
        return json.loads((tmp_path / "out" / "peers.json").read_text())["settings"]

    return run


def fake_python(folder, name):
    script = folder / name
    script.write_text(f"#!{sys.executable} -S\n{SAYS.format(speed=6000 if name == 'palaestra' else 100)}")
    script.chmod(0o755)
    return script


def test_what_a_person_wrote_stands_right_behind_the_promises(command, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "peers-notes.md").write_text("## By hand\n\nIt was raining.\n")
    command("--peers", "palaestra", "--settings", "cleanrl", "--rounds", "1")
    page = (tmp_path / "out" / "peers.md").read_text()
    headings = re.findall("^## (.*)$", page, re.MULTILINE)
    assert headings == ["What was promised", "By hand", "cleanrl"]
    assert "|\n\n## By hand\n\nIt was raining.\n\n## cleanrl\n" in page


def test_each_round_has_every_peer_and_the_page_the_ratio(command, tmp_path, capsys):
    reports = command("--peers", "palaestra", "sb3", "jax", "--settings", "cleanrl", "--rounds", "2")
    rounds = reports["cleanrl"]["rounds"]
    assert [[one["peer"] for one in measured] for measured in rounds] == [["palaestra", "sb3"]] * 2
    assert reports["cleanrl"]["absent"] == {"jax": "it cannot be installed"}
    page = (tmp_path / "out" / "peers.md").read_text()
    assert "| Palaestra | Stable-Baselines3 | cleanrl | 60 | 60.00 | reached |" in page
    assert "JAX, whole loop compiled did not take part: it cannot be installed" in page
    reported = capsys.readouterr()
    assert page in reported.out
    first_of_rounds = [line.split()[3] for line in reported.err.splitlines()][::2]
    assert first_of_rounds == ["palaestra", "sb3"]  # each round begins with another
    assert "<svg" in (tmp_path / "out" / "peers.svg").read_text()


def test_a_peer_that_fails_is_named_and_not_requested_again(command, tmp_path):
    reports = command("--peers", "palaestra", "eager", "--settings", "cleanrl", "--rounds", "3")
    rounds = reports["cleanrl"]["rounds"]
    assert [[one["peer"] for one in measured] for measured in rounds] == [["palaestra", "eager"]] + [["palaestra"]] * 2
    assert "eager torch loop failed at least once: ended with 1" in (tmp_path / "out" / "peers.md").read_text()


def test_a_setting_that_is_not_measured_now_stays_as_it_was(command):
    command("--peers", "palaestra", "--settings", "cleanrl", "--rounds", "2")
    reports = command("--peers", "palaestra", "sb3", "--settings", "large", "--rounds", "1")
    assert {name: len(one["rounds"]) for name, one in reports.items()} == {"cleanrl": 2, "large": 1}


def test_cleanrl_takes_part_only_with_a_checkout(command, tmp_path):
    reports = command("--peers", "palaestra", "cleanrl", "--settings", "cleanrl", "--rounds", "1")
    assert reports["cleanrl"]["absent"] == {"cleanrl": "no checkout was given (--cleanrl PATH)"}
    reports = command(
        "--peers", "palaestra", "cleanrl", "--settings", "cleanrl", "--rounds", "1", "--cleanrl", str(tmp_path)
    )
    assert reports["cleanrl"]["absent"] == {"cleanrl": "it cannot be installed"}
