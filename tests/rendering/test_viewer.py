import math

import pytest

from palaestra.rendering.frame_buffer import InvalidRequest
from palaestra.rendering.viewer import CREDITS, QUALITIES, SIDES, Viewer, ViewerRequest


def take(viewer, now):
    slot = viewer.next_slot(now)
    if slot is not None:
        viewer.record_sent(slot, 1, now)
    return slot


def test_without_acknowledgement_at_most_two_frames_are_in_flight():
    viewer = Viewer()
    for slot in range(8):
        viewer.offer(slot)
    assert [take(viewer, 0.0) for _ in range(4)] == [0, 1, None, None]
    viewer.acknowledge()
    assert [take(viewer, 0.0) for _ in range(2)] == [2, None]


def test_no_more_credit_can_be_had_by_acknowledging_what_was_not_sent():
    viewer = Viewer()
    viewer.acknowledge(1_000_000)
    viewer.acknowledge(-5)
    for slot in range(8):
        viewer.offer(slot)
    assert len([slot for slot in (take(viewer, 0.0) for _ in range(8)) if slot is not None]) == CREDITS


def test_tiles_take_turns_however_often_the_first_has_new_frames():
    viewer, order = Viewer(ViewerRequest(frames_per_second=60.0)), []
    for round_number in range(12):
        for slot in range(4):
            viewer.offer(slot)
        order.append(take(viewer, float(round_number)))
        viewer.acknowledge()
    assert order == [0, 1, 2, 3] * 3


def test_what_waits_is_one_mark_per_slot_however_long():
    viewer = Viewer(ViewerRequest(slots=frozenset({1, 2})))
    for _ in range(10_000):
        for slot in range(64):
            viewer.offer(slot)
    assert len(viewer._new) == 2
    assert viewer.skipped == 2 * 9_999


def test_a_tile_is_sent_no_more_often_than_requested():
    viewer, sent = Viewer(ViewerRequest(frames_per_second=5.0)), 0
    for tick in range(600):  # ten seconds of sixty
        viewer.offer(0)
        sent += take(viewer, tick / 60) is not None
        viewer.acknowledge()
    assert 48 <= sent <= 52


def test_a_frame_rate_equal_to_the_request_loses_nothing_to_jitter():
    viewer, sent = Viewer(ViewerRequest(frames_per_second=15.0)), 0
    for number in range(150):
        viewer.offer(0)
        sent += take(viewer, number / 15 + (0.01 if number % 2 else 0.0)) is not None
        viewer.acknowledge()
    assert sent == 150


def test_a_viewer_with_credit_is_notified():
    calls = []
    viewer = Viewer(ViewerRequest(slots=frozenset({1})), on_ready=lambda: calls.append(1))
    viewer.offer(0)
    assert calls == []
    viewer.offer(1)
    assert calls == [1]
    take(viewer, 0.0)
    viewer.acknowledge()
    assert calls == [1]  # there is nothing new


def test_sizes_are_few_so_that_viewers_share_what_is_encoded():
    assert {ViewerRequest(largest_side=side).size[0] for side in range(-5, 5000)} == set(SIDES)
    assert {ViewerRequest(quality=quality).size[1] for quality in range(101)} == set(QUALITIES)
    assert ViewerRequest(largest_side=300).size[0] == 320


@pytest.mark.parametrize("fps", [0.0, -1.0, math.nan, math.inf, 61.0])
def test_a_rate_that_cannot_be_is_refused(fps):
    with pytest.raises(InvalidRequest, match="frames_per_second"):
        ViewerRequest(frames_per_second=fps)


@pytest.mark.parametrize("slot", [-1, 1024, 2**70])
def test_a_slot_that_cannot_be_is_refused(slot):
    with pytest.raises(InvalidRequest, match="slot"):
        ViewerRequest(slots=frozenset({slot}))
