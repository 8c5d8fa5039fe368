"""Lanes in a directory of their own, and someone at each end."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

from palaestra.rendering.frame_buffer import VARIABLE, FrameBufferOwner, frame_buffer_path
from palaestra.rendering.frame_format import Numbers
from palaestra.rendering.frame_reader import FrameReader
from palaestra.rendering.frame_writer import FrameWriter
from palaestra.runs.processes import process_started_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@dataclass
class Ends:
    owner: FrameBufferOwner
    writer: FrameWriter
    reader: FrameReader

    @property
    def path(self) -> Path:
        return self.owner.path

    def close(self) -> None:
        self.reader.close()
        self.writer.close()
        self.owner.close()


@pytest.fixture
def buffers(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


@pytest.fixture
def open_frame_buffer(buffers) -> Iterator[Callable[..., Ends]]:
    opened: list[Ends] = []

    def make(run_id: str = "RUN", role: str = "train", slots: int = 2, capacity: int = 64 * 64 * 3) -> Ends:
        owner = FrameBufferOwner(frame_buffer_path(run_id, role), slots, capacity, process_started_at(os.getpid()))
        opened.append(Ends(owner, FrameWriter(owner.descriptor, owner.about), FrameReader(owner.path)))
        return opened[-1]

    yield make
    for ends in opened:
        ends.close()


@pytest.fixture
def image() -> Callable[..., np.ndarray]:
    """One shade of grey, or noise that no other seed has."""

    def make(shade: int | None = None, height: int = 6, width: int = 8, seed: int = 0) -> np.ndarray:
        if shade is not None:
            return np.full((height, width, 3), shade, np.uint8)
        return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)

    return make


@pytest.fixture
def numbers() -> Callable[..., Numbers]:
    def make(env_step: int = 7, reward: float = 1.0, total_reward: float = 5.5, length: int = 6) -> Numbers:
        return Numbers(env_step, reward, total_reward, length)

    return make
