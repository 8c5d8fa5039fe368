"""Whatever is wrong: one clear line with what to try, the right exit code, nothing lost and nothing left behind."""

import os
import shutil
import signal
import subprocess
from contextlib import contextmanager

import pytest
import torch

from palaestra.checkpoints.manager import CheckpointManager
from palaestra.core.run import RunState
from palaestra.runs.directory import RunDirectory
from palaestra.runs.journal import read_journal
from palaestra.runs.status import read_record

pytestmark = pytest.mark.slow

SMALL = ["checkpoints.save_interval=1", "loggers.tensorboard=false", "--quiet"]
TRAIN = ["train", "cartpole", "total_steps=512", *SMALL]  # two epochs
LONGER = ["train", "cartpole", "total_steps=2560", *SMALL, "--override", "total_steps"]  # ten


def tree(path) -> set[str]:
    return {str(entry.relative_to(path)) for entry in path.rglob("*")} if path.exists() else set()


def refuses(done, code: int, *sayings: str) -> None:
    """One line with what was wrong, and at most one more with what to try."""
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    lines = done.err.splitlines()
    assert lines[0].startswith("palaestra: ")
    assert len(lines) <= 2, done.err
    for saying in sayings:
        assert saying in done.err


@pytest.mark.parametrize(
    ("words", "code", "sayings"),
    [
        (["train", "cartpol"], 3, ["'cartpol'", "Did you mean 'cartpole'?"]),
        (["train", "cartpole", "env.id=CartPole-v7"], 3, ["CartPole-v7", "Did you mean 'CartPole-v1'?"]),
        (["train", "cartpole", "totl_steps=5"], 2, ["totl_steps", "id you mean", "total_steps"]),
        (["train", "cartpole", "ppo.gama=5"], 2, ["ppo.gama", "ppo.gamma"]),
        (["train", "cartpole", "total_steps=many"], 2, ["total_steps", "many"]),
        (["train", "cartpole", "ppo.gamma=1.5"], 2, ["ppo.gamma", "1.5"]),
        (["train", "cartpole", "policy.settings.hiden=[4]"], 2, ["hiden", "Did you mean 'hidden'?"]),
        (["train", "--resume", "run=nobody"], 3, ["nobody"]),
        (["eval", "nobody"], 3, ["nobody"]),
    ],
    ids=lambda one: one[-1] if isinstance(one, list) else "",
)
def test_a_wrong_word_is_refused_and_leaves_nothing_behind(server, words, code, sayings):
    before = tree(server.runs)
    refuses(server(*words), code, *sayings)
    assert tree(server.runs) == before


def test_the_command_itself_refuses_as_the_forked_one_does(palaestra):
    refuses(palaestra("train", "cartpole", "totl_steps=5"), 2, "total_steps")
    assert not palaestra.runs.exists()


@pytest.fixture(scope="module")
def good(server):
    """A run with checkpoints 1 and 2, never to be changed."""
    assert server(*TRAIN, "run=good").code == 0
    return server.run("good")


@pytest.fixture
def copied(good, tmp_path):
    """The same run where it may be broken."""
    shutil.copytree(good.path, tmp_path / good.id)
    return RunDirectory(tmp_path / good.id)


def test_a_selector_that_finds_nothing_is_refused_with_what_there_is(server, good):
    refuses(server("eval", "good:77", "--episodes", "1"), 3, "77")
    refuses(server("eval", "good:bset", "--episodes", "1"), 2, "bset")


class Payload:
    """Would create a file, if anybody unpickled it."""

    def __init__(self, canary) -> None:
        self.canary = str(canary)

    def __reduce__(self):
        return (open, (self.canary, "w"))


def truncate(path, _canary):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip_a_bit(path, _canary):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def make_foreign(path, _canary):
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(500))


def make_a_pickle(path, canary):
    torch.save({"weights": Payload(canary)}, path)


@pytest.mark.fault("C6", "C12")
@pytest.mark.parametrize("damage", [truncate, flip_a_bit, make_foreign, make_a_pickle])
def test_a_damaged_checkpoint_is_refused_by_name_and_nothing_in_it_is_run(server, copied, tmp_path, damage):
    weights = copied.checkpoints / "model_0002.safetensors"
    damage(weights, tmp_path / "canary")
    before = tree(copied.path)
    refuses(server("eval", str(weights), "--episodes", "1"), 1, "model_0002.safetensors")
    assert not (tmp_path / "canary").exists()
    assert tree(copied.path) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_checkpoint_that_may_not_be_read_is_refused_by_name(server, copied):
    weights = copied.checkpoints / "model_0002.safetensors"
    weights.chmod(0)
    refuses(server("eval", str(weights), "--episodes", "1"), 1, "model_0002.safetensors")


@pytest.mark.fault("C12")
def test_a_pickle_without_a_sidecar_is_refused(server, tmp_path):
    make_a_pickle(tmp_path / "agent.safetensors", tmp_path / "canary")
    done = server("eval", str(tmp_path / "agent.safetensors"), "--episodes", "1")
    refuses(done, 2, "agent.safetensors", "palaestra convert")
    assert not (tmp_path / "canary").exists()


@pytest.mark.fault("C6", "C7")
def test_a_damaged_newest_checkpoint_is_named_and_the_one_before_is_continued(server, good):
    name = "half-good"
    assert server(*TRAIN, f"run={name}").code == 0
    directory = server.run(name)
    flip_a_bit(directory.checkpoints / "trainer_state_0002.pt", None)
    directory.status_file.write_text(directory.status_file.read_text().replace('"finished"', '"failed"'))
    done = server(*TRAIN, f"run={name}")
    assert done.code == 0, done.err
    assert "Checkpoint 2 is damaged" in done.err
    resumed = [entry for entry in read_journal(directory.journal_file) if entry.event == "run.resumed"]
    assert [entry.data["epoch"] for entry in resumed] == [1]


@pytest.mark.fault("G10")
def test_a_second_trainer_of_a_run_is_refused_and_the_first_goes_on(server, good, wait_until, differences):
    first = server.start(*TRAIN, "run=busy")
    wait_until(lambda: server.saved_epochs("busy") or first.is_over(), "a first checkpoint")
    os.kill(first.pid, signal.SIGSTOP)
    try:
        refuses(server(*TRAIN, "run=busy"), 2, "'busy' is being trained by process", str(first.pid))
    finally:
        os.kill(first.pid, signal.SIGCONT)
    assert first.wait() == 0
    assert differences(server.run("busy"), good) == []


@pytest.mark.fault("R6")
def test_another_configuration_is_refused_with_the_difference_and_accepted_by_name(server):
    assert server(*TRAIN, "run=changed", "ppo.gamma=0.75").code == 0
    done = server(*TRAIN, "run=changed", "ppo.gamma=0.5")
    assert done.code == 2
    assert "ppo.gamma" in done.err
    assert "0.75" in done.err
    assert "0.5" in done.err
    assert "--override ppo.gamma" in done.err
    assert server(*LONGER, "run=changed", "ppo.gamma=0.5", "--override", "ppo.gamma").code == 0
    changed = [entry for entry in read_journal(server.run("changed").journal_file) if entry.event == "config.changed"]
    assert len(changed) == 1
    assert read_record(server.run("changed")).epoch == 10


def test_a_missing_extra_exits_4_and_names_it(palaestra):
    (palaestra.home / "shims").mkdir()
    (palaestra.home / "shims" / "sitecustomize.py").write_text(
        "import sys\nfor name in ('mujoco', 'Box2D'):\n    sys.modules[name] = None\n"
    )
    path = os.pathsep.join([str(palaestra.home / "shims"), os.environ.get("PYTHONPATH", "")])
    done = palaestra("train", "walker2d", *SMALL, variables={"PYTHONPATH": path})
    refuses(done, 4, "'mujoco'", "pip install 'palaestra[mujoco]'")
    assert not palaestra.runs.exists()


@contextmanager
def small_disk(path, size: str):
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


@pytest.mark.fault("C4")
def test_a_disk_that_fills_up_loses_no_checkpoint_and_the_run_goes_on_when_there_is_room(palaestra, tmp_path):
    with small_disk(tmp_path / "small", "3m") as disk:
        variables = {"PALAESTRA_RUNS_DIR": str(disk / "runs")}
        assert palaestra(*TRAIN, "run=full", variables=variables).code == 0
        ballast = disk / "ballast"
        with pytest.raises(OSError, match="No space left"), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        done = palaestra(*LONGER, "run=full", variables=variables)
        assert done.code == 1, done.err
        assert "No space left on device" in done.err
        assert "Traceback" not in done.err
        palaestra.runs = disk / "runs"
        directory = palaestra.run("full")
        assert [one.epoch for one in CheckpointManager(directory).list_all_checkpoints()] == [1, 2]
        ballast.unlink()
        assert palaestra(*LONGER, "run=full", variables=variables).code == 0
        assert read_record(directory).state is RunState.FINISHED
        assert CheckpointManager(directory).list_all_checkpoints()[-1].epoch == 10


@pytest.mark.fault("C5")
def test_a_runs_directory_that_cannot_be_written_is_refused(palaestra, tmp_path):
    with small_disk(tmp_path / "small", "1m") as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        done = palaestra(*TRAIN, "run=x", variables={"PALAESTRA_RUNS_DIR": str(disk / "runs")})
        refuses(done, 2, str(disk / "runs"), "Read-only file system", "PALAESTRA_RUNS_DIR")
