"""Algorithms with tiny networks, before their first step."""

from __future__ import annotations

import pytest
import torch

from tests.algorithms.actors import build


@pytest.fixture(autouse=True)
def one_thread():
    """Small tensors on a busy machine: threads that wait for each other take ten times as long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def make():
    return build
