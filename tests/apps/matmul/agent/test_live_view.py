from contextlib import closing
from time import monotonic

import numpy as np
import pytest

from palaestra.apps.matmul.agent.live_view import FactorView, factor_view
from palaestra.apps.matmul.config import DiscoverConfig
from palaestra.apps.matmul.discover import find_or_create_run
from palaestra.apps.matmul.schemes.bit_masks import to_masks
from palaestra.apps.matmul.schemes.factorization import Format
from palaestra.apps.matmul.schemes.formulas import draw_factors
from palaestra.core.clock import SystemClock
from palaestra.rendering.frame_buffer import VARIABLE, all_frame_buffers, frame_buffer_path
from palaestra.rendering.frame_format import Demand
from palaestra.rendering.frame_reader import FrameReader
from palaestra.runner.session import RunSession
from palaestra.runs.journal import read_journal

SMALL = Format(2, 2, 2)


@pytest.fixture
def session(workplace, monkeypatch):
    (workplace / "lanes").mkdir()
    monkeypatch.setenv(VARIABLE, str(workplace / "lanes"))
    directory = find_or_create_run(DiscoverConfig(method="agent"), "first", "palaestra discover")
    return RunSession(directory, 0, SystemClock())


def test_a_viewer_gets_the_newest_and_the_best_scheme(session, strassen_bits):
    masks = to_masks(strassen_bits)
    with factor_view(SMALL, session) as view, closing(FrameReader(frame_buffer_path(session.directory.id))) as reader:
        reader.request(Demand(60.0, 0, frozenset({1}), 1, 1), monotonic() + 2)
        view.show(masks[:5], masks, -9.0, 21, 3)
        assert (reader.slot_count, reader.heartbeat().env_steps) == (2, 21)
        frame = reader.read(1)
        assert frame.numbers.total_reward == -7.0
    assert all_frame_buffers() == []


def test_a_tile_is_the_image_of_its_factors(strassen_bits):
    masks = to_masks(strassen_bits)
    view = FactorView(SMALL, None)
    view.show(masks[:3], masks, -9.0, 1, 1)
    newest, best = view.view(0), view.view(1)
    assert np.array_equal(best.content, draw_factors(strassen_bits, 8))
    assert (newest.numbers.reward, newest.numbers.length) == (-9.0, 3)
    assert (best.numbers.reward, best.numbers.length) == (-7.0, 7)


def test_without_a_frame_buffer_the_run_continues(session, workplace, monkeypatch, strassen_bits):
    monkeypatch.setenv(VARIABLE, str(workplace / "nowhere"))
    masks = to_masks(strassen_bits)
    with factor_view(SMALL, session) as view:
        view.show(masks, masks, -7.0, 1, 1)
    assert [entry.event for entry in read_journal(session.directory.journal_file)][-1] == "frames.failed"
