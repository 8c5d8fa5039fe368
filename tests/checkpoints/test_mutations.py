"""Thousands of damaged directories: never is anything served that was not saved under that epoch."""

import random
from collections import Counter

import pytest

from palaestra.checkpoints import durable
from palaestra.checkpoints.selection import open_latest

PARTS = {
    epoch: {
        f"model_000{epoch}.safetensors": random.Random(epoch).randbytes(1200),
        f"trainer_state_000{epoch}.pt": random.Random(-epoch).randbytes(400),
    }
    for epoch in (1, 2)
}


def flip(data, chance, _):
    for _ in range(chance.choice([1, 1, 1, 5])):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def cut(data, chance, _):
    del data[chance.randrange(len(data)) :]


def append(data, chance, _):
    data += chance.randbytes(chance.randrange(1, 9))


def zero(data, chance, _):
    begin = chance.randrange(len(data))
    end = min(len(data), begin + chance.randrange(1, 600))
    data[begin:end] = bytes(end - begin)


def insert(data, chance, _):
    data.insert(chance.randrange(len(data)), 0)


def swap(data, _, other):
    data[:] = other


def delete(data, _, __):
    data.clear()


MUTATIONS = [flip, cut, append, zero, insert, swap, delete]


def mutate_and_read(directory, count, seed=0):
    """What the reader did with each of `count` mutations of one of the newest checkpoint's files."""
    base = {path.name: path.read_bytes() for path in directory.iterdir()}
    newest = sorted(name for name in base if "0002" in name)
    chance, outcome = random.Random(3 + seed), Counter()
    for _ in range(count):
        name, mutation = chance.choice(newest), chance.choice(MUTATIONS)
        data = bytearray(base[name])
        mutation(data, chance, base[name.replace("0002", "0001")])
        if mutation is delete:
            (directory / name).unlink()
        else:
            (directory / name).write_bytes(data)
        opened = open_latest(directory)
        if opened.parts == PARTS.get(opened.checkpoint.epoch):
            unchanged = bytes(data) == base[name]
            assert opened.checkpoint.epoch == (2 if unchanged else 1), (name, mutation)
            outcome["fell back" if opened.checkpoint.epoch == 1 else "unchanged"] += 1
            assert opened.refused or unchanged or (mutation is delete and name.endswith(".yaml"))
        else:
            outcome["served corrupt"] += 1
        (directory / name).write_bytes(base[name])
    return outcome


@pytest.fixture
def directory(tmp_path, describe):
    for epoch, parts in PARTS.items():
        durable.commit(tmp_path, epoch, parts, describe(epoch))
    return tmp_path


def check(outcome, count):
    assert outcome["served corrupt"] == 0
    assert sum(outcome.values()) == count
    assert outcome["fell back"] > 0.9 * count


@pytest.mark.fault("C6", "C7", "C8", "C10")
def test_500_mutations_serve_nothing_corrupt(directory, figure, chaos_seed):
    check(mutate_and_read(directory, 500, chaos_seed), 500)
    figure("damaged directories, none served", 500)


@pytest.mark.fault("C6", "C7", "C8", "C10")
@pytest.mark.chaos
def test_10000_mutations_serve_nothing_corrupt(directory, figure, chaos_seed):
    check(mutate_and_read(directory, 10_000, chaos_seed), 10_000)
    figure("damaged directories, none served", 10_000)


@pytest.mark.fault("C6", "C7")
def test_a_reader_without_checksums_would_be_seen(directory, monkeypatch):
    monkeypatch.setattr(durable, "_verified_bytes", lambda directory, name, _: (directory / name).read_bytes())
    with pytest.raises((AssertionError, FileNotFoundError)):
        check(mutate_and_read(directory, 100), 100)


@pytest.mark.fault("C8")
def test_a_sidecar_that_need_not_tell_its_epoch_would_be_seen(directory, monkeypatch):
    def trusting(directory, epoch):
        path = directory / durable.sidecar_name(epoch)
        return durable.sidecar_text.decode(path.read_bytes(), str(path), path)

    (directory / "model_0002.yaml").write_bytes((directory / "model_0001.yaml").read_bytes())
    assert open_latest(directory).refused
    monkeypatch.setattr(durable, "read_sidecar", trusting)
    opened = open_latest(directory)
    assert not opened.refused, "without the check, epoch 1 is served as if it were the newest"
