from __future__ import annotations

import json
import subprocess
import sys

import pytest

from palaestra.cli.main import main
from palaestra.cli.policies import COMMAND
from palaestra.policies.shipped import shipped_names


def test_the_list_has_every_graph_with_a_line_about_it(capsys):
    assert main(["policies"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == shipped_names()


def test_the_list_as_json(capsys):
    assert main(["policies", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["name"] for row in rows} == set(shipped_names())
    assert all(row["summary"] for row in rows)


def test_listing_does_not_load_torch():
    code = "import sys; from palaestra.cli.main import main; main(['policies']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_a_policy_is_shown_with_shapes_and_weights_for_an_environment(capsys):
    assert main(["policies", "show", "mlp", "env.id=Acrobot-v1", "policy.settings.hidden=[8]"]) == 0
    shown = capsys.readouterr()
    rows = {line.split()[0]: line.split() for line in shown.out.splitlines()}
    assert rows["actor"][-2:] == ["[8]", str(7 * 8)]
    assert rows["action"][-2:] == ["[3]", str(9 * 3)]
    assert rows["total"][-1] == str(2 * 7 * 8 + 9 * 3 + 9)
    assert "Acrobot-v1" in shown.err


def test_a_policy_as_json(capsys):
    assert main(["policies", "show", "fast", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [node["name"] for node in found["nodes"]][:3] == ["observation", "picture", "conv1"]
    assert found["memory"] == {"memory.hidden": [128], "memory.cell": [128]}
    assert found["weights"] == sum(node["weights"] for node in found["nodes"])


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["show", "faast"], 3, "Did you mean 'fast'?"),
        (["show", "mlp", "env.id=CartPol-v1"], 3, "CartPol-v1"),
        (["show", "mlp", "evn.id=CartPole-v1"], 2, "Did you mean 'env'?"),
        (["show", "mlp", "policy.settings.hiden=[3]"], 2, "Did you mean 'hidden'?"),
        (["show", "fast", "env.id=CartPole-v1"], 2, "needs a picture"),
        (["show", "env.id=CartPole-v1"], 2, "Which policy?"),
        (["shwo"], 2, "Did you mean 'show'?"),
        (["show", "nothing.yaml"], 3, "no such file"),
    ],
)
def test_bad_input_is_one_lesson(words, code, complaint, capsys):
    assert main(["policies", *words]) == code
    assert complaint in capsys.readouterr().err


def test_names_are_offered_for_completion():
    assert COMMAND.actions["show"].candidates([]) == shipped_names()
