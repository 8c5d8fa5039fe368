"""A native run does without torch, and whether it was there changes nothing of what is on disk."""

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

count_iteration = trainer._count_iteration

def witnessed(*arguments):
    report = count_iteration(*arguments)
    told.append(f"update {report.iteration} is finished")
    return report

trainer._count_iteration = witnessed

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


def test_a_native_run_never_imports_torch_and_ends_as_one_that_does(palaestra, differences):
    words = ("cartpole", "total_steps=512", "seed=3", "checkpoints.save_interval=1")
    without = events(palaestra, *words, "run=without")
    beside = events(palaestra, *words, "run=beside", "--with-torch")
    updates = ["update 1 is finished", "update 2 is finished"]
    assert without == updates
    assert beside == ["torch is imported", *updates]
    assert differences(palaestra.run("without"), palaestra.run("beside")) == []


OFF_POLICY = {
    "dqn": ("cartpole", "dqn.steps_per_iteration=256", "dqn.learning_starts=100"),
    "pqn": ("cartpole", "pqn.env_count=2"),
    "sac": ("pendulum", "sac.steps_per_iteration=256", "sac.learning_starts=100", "sac.batch_size=16"),
    "td3": ("pendulum", "td3.steps_per_iteration=256", "td3.learning_starts=100", "td3.batch_size=16"),
}


@pytest.mark.parametrize("algorithm", OFF_POLICY)
def test_a_native_run_of_any_algorithm_never_imports_torch_and_ends_as_one_that_does(palaestra, differences, algorithm):
    words = (*OFF_POLICY[algorithm], f"algorithm={algorithm}", "total_steps=512", "checkpoints.save_interval=1")
    without = events(palaestra, *words, "run=without")
    beside = events(palaestra, *words, "run=beside", "--with-torch")
    updates = ["update 1 is finished", "update 2 is finished"]
    assert without == updates
    assert beside == ["torch is imported", *updates]
    assert differences(palaestra.run("without"), palaestra.run("beside")) == []


TELLTALE = """
import os, sys
from importlib.abc import MetaPathFinder

class Telltale(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            os.write(2, f"torch is imported by rank {os.environ.get('RANK')}\\n".encode())  # whole: ranks share it

sys.meta_path.insert(0, Telltale())
"""


def test_two_native_ranks_never_import_torch_and_end_as_two_that_do(palaestra, differences, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(TELLTALE)
    words = ("train", "cartpole", "total_steps=1024", "seed=3", "checkpoints.save_interval=1", "--nproc", "2")
    without = palaestra(*words, "run=without", "--quiet", variables={"PYTHONPATH": str(tmp_path)})
    assert (without.code, without.err) == (0, "")
    (tmp_path / "sitecustomize.py").write_text(TELLTALE + "import torch")
    beside = palaestra(*words, "run=beside", "--quiet", variables={"PYTHONPATH": str(tmp_path)})
    assert beside.code == 0, beside.err
    assert "torch is imported by rank 1" in beside.err
    assert differences(palaestra.run("without"), palaestra.run("beside")) == []


@pytest.mark.full
def test_a_run_saved_without_torch_goes_on_bit_for_bit(palaestra, differences):
    words = ("cartpole", "seed=3", "ppo.learning_rate=1e-3", "ppo.clip=0.2", "ppo.entropy_coefficient=0.01")
    events(palaestra, *words, "run=whole", "total_steps=1024")
    events(palaestra, *words, "run=halved", "total_steps=512")
    reports = events(palaestra, *words, "run=halved", "total_steps=1024", "--override", "total_steps")
    assert reports == ["torch is imported", "update 3 is finished", "update 4 is finished"]
    assert differences(palaestra.run("whole"), palaestra.run("halved")) == []


@pytest.mark.full
def test_what_only_torch_can_do_has_it_from_the_start(palaestra):
    reports = events(palaestra, "cartpole", "total_steps=512", "engine=torch", "run=torch")
    assert reports[0] == "torch is imported"
