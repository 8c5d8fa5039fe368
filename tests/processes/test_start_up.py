"""torch comes when a run needs it, and whether it was there before changes nothing."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

WITNESS = """
import sys
from importlib.abc import MetaPathFinder

told = []

class Witness(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            told.append("torch is imported")

sys.meta_path.insert(0, Witness())
if "--with-torch" in sys.argv:
    sys.argv.remove("--with-torch")
    import torch

from palaestra.training import trainer

iterate = trainer._iterate

def witnessed(state):
    report = iterate(state)
    told.append(f"update {report.iteration} is finished")
    return report

trainer._iterate = witnessed

from palaestra.cli.main import main

code = main(sys.argv[1:])
print(*told, sep="\\n")
sys.exit(code)
"""


def events(palaestra, *words):
    done = subprocess.run(
        [sys.executable, "-c", WITNESS, "train", *words, "--quiet"],
        cwd=palaestra.home,
        env=palaestra.variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_first_update_is_finished_before_torch_is_imported_and_is_the_same_as_with_it(palaestra, differences):
    words = ("cartpole", "total_steps=512", "seed=3")
    late = events(palaestra, *words, "run=late")
    early = events(palaestra, *words, "run=early", "--with-torch")
    updates = ["update 1 is finished", "update 2 is finished"]
    assert late == [*updates, "torch is imported"]  # for the checkpoint at the end
    assert early == ["torch is imported", *updates]
    assert differences(palaestra.run("late"), palaestra.run("early")) == []


@pytest.mark.full
def test_what_only_torch_can_do_has_it_from_the_beginning(palaestra):
    told = events(palaestra, "cartpole", "total_steps=512", "engine=torch", "run=torch")
    assert told[0] == "torch is imported"
