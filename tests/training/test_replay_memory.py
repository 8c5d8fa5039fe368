import shutil
from types import SimpleNamespace

import pytest

from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface
from palaestra.training import replay_memory
from palaestra.training.replay_memory import describe, refuse_full_disk, refuse_large_buffer

CHEETAH = EnvInterface(BoxSpec((17,)), BoxSpec((6,), low=(-1.0,), high=(1.0,)))
PIXELS = EnvInterface(BoxSpec((4, 84, 84), "uint8", (0.0,), (255.0,)), DiscreteSpec(6))


def config(algorithm="sac", steps=5_000_000, **settings):
    return TrainConfig.model_validate({"algorithm": algorithm, "total_steps": steps, algorithm: settings})


def test_the_line_says_transitions_memory_and_disk():
    text = "Replay buffer: 1,000,000 transitions, 101 MB in memory, 97 MB on disk"
    assert describe(config(), CHEETAH) == text
    assert describe(config(), CHEETAH, 2) == f"{text}, in each of 2 processes"
    short = "Replay buffer: 20,000 transitions (the whole run), 2.02 MB in memory, 1.94 MB on disk"
    assert describe(config(steps=20_000), CHEETAH) == short
    unsaved = config().model_copy(
        update={"checkpoints": TrainConfig().checkpoints.model_copy(update={"replay_buffer": False})}
    )
    assert describe(unsaved, CHEETAH).endswith("101 MB in memory, not saved")


def test_frames_are_counted_once_and_the_line_says_what_they_take_otherwise():
    text = describe(config("dqn", buffer_size=1_000_000), PIXELS)
    assert "7.08 GB in memory (frames stored once; 28.2 GB if they are no stacks)" in text


def test_algorithms_without_a_buffer_have_no_line():
    assert describe(config("ppo"), CHEETAH) == describe(config("pqn"), PIXELS) == ""
    refuse_large_buffer(config("ppo"), CHEETAH)


def test_a_buffer_larger_than_the_memory_is_refused_with_numbers_and_one_that_fits(monkeypatch):
    monkeypatch.setattr(replay_memory, "memory_limit", lambda: 100_000_000)
    with pytest.raises(UsageError, match=r"101 MB \(1,000,000 transitions\), and this machine has 100 MB") as caught:
        refuse_large_buffer(config(), CHEETAH)
    assert caught.value.hint == "Try sac.buffer_size=890000."
    refuse_large_buffer(config(buffer_size=890_000), CHEETAH)
    with pytest.raises(UsageError, match="in each of 2 processes") as caught:
        refuse_large_buffer(config(buffer_size=890_000), CHEETAH, 2, 2)
    assert caught.value.hint == "Try sac.buffer_size=440000."
    refuse_large_buffer(config(steps=10_000), CHEETAH)  # rows that are never reached take none


def test_an_unknown_memory_refuses_nothing(monkeypatch):
    monkeypatch.setattr(replay_memory, "memory_limit", lambda: None)
    refuse_large_buffer(config(buffer_size=10**12, steps=10**12), CHEETAH)


def test_a_buffer_larger_than_the_free_disk_is_refused_with_both_ways_out(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=50_000_000))
    with pytest.raises(UsageError, match=r"takes 107 MB, and .* has 50 MB free") as caught:
        refuse_full_disk(config(), CHEETAH, tmp_path / "not" / "there")
    assert "sac.buffer_size=460000" in caught.value.hint
    assert "checkpoints.replay_buffer=false" in caught.value.hint
    refuse_full_disk(config(buffer_size=460_000), CHEETAH, tmp_path)
