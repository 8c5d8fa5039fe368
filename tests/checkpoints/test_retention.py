import pytest

from palaestra.checkpoints.durable import commit, committed_epochs, verify
from palaestra.checkpoints.filesystem import RealFileSystem
from palaestra.checkpoints.locks import in_use
from palaestra.checkpoints.names import temporary_name
from palaestra.checkpoints.reading import survey
from palaestra.checkpoints.retention import retain, superfluous, sweep


class Recorder(RealFileSystem):
    def __init__(self):
        self.steps = []

    def rename(self, source, target):
        self.steps.append(("rename", target.name))
        super().rename(source, target)

    def unlink(self, path):
        self.steps.append(("unlink", path.name))
        super().unlink(path)

    def fsync_directory(self, directory):
        self.steps.append(("sync", ""))
        super().fsync_directory(directory)


@pytest.fixture
def make(tmp_path, describe):
    def commits(*epochs, scores=None):
        for epoch in epochs:
            parts = {f"model_{epoch:04d}.safetensors": b"w", f"trainer_state_{epoch:04d}.pt": b"s"}
            commit(tmp_path, epoch, parts, describe(epoch, score=(scores or {}).get(epoch)))
        return survey(tmp_path).checkpoints

    return commits


@pytest.mark.parametrize(
    ("scores", "keep", "gone"),
    [
        ({}, 1, [1, 2, 3]),
        ({}, 0, [1, 2, 3]),
        ({}, 3, [1]),
        ({}, 9, []),
        ({2: -5.0}, 1, [1, 3]),
        ({1: 7.0, 2: 7.0}, 1, [1, 3]),
        ({1: 9.0, 4: 1.0}, 1, [2, 3]),
    ],
)
def test_the_newest_and_the_best_always_stay(describe, scores, keep, gone):
    checkpoints = [describe(epoch, score=scores.get(epoch)) for epoch in (1, 2, 3, 4)]
    assert [one.epoch for one in superfluous(checkpoints, keep)] == gone


def test_the_newest_is_so_by_number(describe):
    assert [one.epoch for one in superfluous([describe(10000), describe(9999)], 1)] == [9999]


def test_the_files_after_a_cleanup_are_counted(tmp_path, make):
    removed = retain(tmp_path, make(1, 2, 3, 4, scores={1: 5.0}), keep=2, keep_trainer_states=1)
    assert removed.epochs == (2,)
    assert removed.trainer_states == (1, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model_0001.safetensors",
        "model_0001.yaml",
        "model_0003.safetensors",
        "model_0003.yaml",
        "model_0004.safetensors",
        "model_0004.yaml",
        "trainer_state_0004.pt",
    ]
    for epoch in (1, 3, 4):
        verify(tmp_path, epoch)


def test_one_in_use_is_kept_until_it_is_free(tmp_path, make):
    found = make(1, 2, 3)
    with in_use(tmp_path, 1):
        assert retain(tmp_path, found, keep=1, keep_trainer_states=1).epochs == (2,)
    assert committed_epochs(tmp_path) == [1, 3]
    assert retain(tmp_path, survey(tmp_path).checkpoints, keep=1, keep_trainer_states=1).epochs == (1,)


@pytest.mark.fault("C16")
def test_the_sidecar_goes_first_and_for_good(tmp_path, make):
    recorder = Recorder()
    retain(tmp_path, make(1, 2), keep=1, keep_trainer_states=1, fs=recorder)
    assert recorder.steps == [
        ("unlink", "model_0001.yaml"),
        ("sync", ""),
        ("unlink", "model_0001.safetensors"),
        ("unlink", "trainer_state_0001.pt"),
    ]


def test_a_state_is_dropped_only_when_no_sidecar_names_it_any_more(tmp_path, make):
    recorder = Recorder()
    retain(tmp_path, make(1, 2), keep=2, keep_trainer_states=1, fs=recorder)
    assert recorder.steps == [("rename", "model_0001.yaml"), ("sync", ""), ("unlink", "trainer_state_0001.pt")]


@pytest.mark.fault("C15")
def test_the_sweep_takes_what_the_dead_left_and_nothing_else(tmp_path, make):
    found = make(5, 6)
    alive, dead = tmp_path / temporary_name("model_0007.yaml"), tmp_path / ".tmp-1-1-model_0007.yaml"
    old, new = tmp_path / "model_0001.safetensors", tmp_path / "model_0009.safetensors"
    strange = tmp_path / "notes.txt"
    for path in (alive, dead, old, new, strange):
        path.write_bytes(b"x")
    assert sweep(tmp_path, found, keep=2) == [dead, old]
    assert all(path.exists() for path in (alive, new, strange))
    assert not any(path.exists() for path in (dead, old))
    assert committed_epochs(tmp_path) == [5, 6]


@pytest.mark.parametrize(("keep", "goes"), [(2, False), (1, True), (0, True)])
def test_the_sweep_leaves_data_between_the_newest_that_are_kept(tmp_path, make, keep, goes):
    found = make(5, 8)
    between = tmp_path / "model_0006.safetensors"
    between.write_bytes(b"x")
    assert sweep(tmp_path, found, keep) == ([between] if goes else [])
    assert between.exists() != goes
