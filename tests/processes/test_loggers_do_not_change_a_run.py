"""W&B may be absent, raise, hang or leave: the run is the same to the last bit, and one line says so."""

import os

import pytest

from palaestra.runs.journal import read_journal

pytestmark = pytest.mark.slow

SETTINGS = ["train", "cartpole", "total_steps=1280", "checkpoints.save_interval=2", "--quiet"]

# Stands in for W&B, and misbehaves at once; how, says FAKE_WANDB.
FAKE_WANDB = """
import os, time

def init(**_given):
    how = os.environ["FAKE_WANDB"]
    if how == "raises":
        raise RuntimeError("no luck")
    if how == "hangs":
        time.sleep(600)
    os._exit(7)

class Table:
    pass

class Artifact:
    pass
"""
# A finder before all others that knows of no wandb.
NO_WANDB = """
import sys

class Absent:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == "wandb":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent)
"""


@pytest.fixture(scope="module")
def without(shared_palaestra):
    """A run that never heard of W&B."""
    done = shared_palaestra(*SETTINGS, "run=without")
    assert done.code == 0, done.err
    return shared_palaestra.run("without")


def shims(palaestra, how: str) -> dict[str, str]:
    """Variables that put a stand-in before the real package."""
    folder = palaestra.home / "shims"
    folder.mkdir()
    name, text = ("sitecustomize.py", NO_WANDB) if how == "absent" else ("wandb.py", FAKE_WANDB)
    (folder / name).write_text(text)
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]), "FAKE_WANDB": how}


@pytest.mark.fault("S1", "S2", "S3")
@pytest.mark.parametrize(
    "how",
    ["absent", "hangs", pytest.param("raises", marks=pytest.mark.full), pytest.param("exits", marks=pytest.mark.full)],
)
def test_the_run_is_the_same_and_one_warning_says_what_happened(palaestra, without, differences, how):
    done = palaestra(
        *SETTINGS,
        "run=with",
        "loggers.wandb.enabled=true",
        "loggers.wandb.grace_seconds=0.5",
        variables=shims(palaestra, how),
    )
    assert done.code == 0, done.err
    directory = palaestra.run("with")
    assert differences(directory, without) == []
    failures = [entry for entry in read_journal(directory.journal_file) if entry.event == "sink.failed"]
    assert [entry.data["sink"] for entry in failures] == ["wandb"]
    lines = directory.log_file().read_text().splitlines()
    assert len([line for line in lines if " WARNING " in line]) == 1
    reports = [line for line in done.err.splitlines() if line.strip()]
    assert len(reports) == 1, reports
    assert "wandb" in reports[0]
