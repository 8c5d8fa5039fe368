import os
import struct
from time import monotonic

import pytest

from palaestra.rendering.buffer_paths import frame_buffer_path
from palaestra.rendering.heartbeat import Heartbeat
from palaestra.rendering.notifier import NotificationReceiver
from palaestra.rendering.viewer import Viewer, ViewerRequest
from palaestra.rendering.watch import STALE_SECONDS, Watch
from palaestra.runs.processes import is_alive

TICKET = 9


@pytest.fixture
def watch(buffers):
    notifier = NotificationReceiver()
    made = Watch(frame_buffer_path("RUN"), notifier.number, TICKET, is_alive)
    yield made
    made.close()
    notifier.close()


def beat(at, condition="open", reason="", steps=0):
    return Heartbeat(at, steps, 0, 0, 0.0, 0.0, condition, reason)


def heads(watch, viewer, now):
    """Slot and shade of what a viewer takes until there is no more."""
    found = []
    while (message := watch.take(viewer, now)) is not None:
        found.append((struct.unpack_from("<H", message, 4)[0], struct.unpack_from("<Q", message, 24)[0]))
        viewer.acknowledge()
    return found


def test_what_viewers_want_together_is_said_in_the_lane(open_lane, watch):
    ends, now = open_lane(slots=8), monotonic()
    watch.join(Viewer(ViewerRequest(5.0, frozenset({1, 2}), 100)), now)
    watch.join(Viewer(ViewerRequest(12.0, frozenset({6}), 300)), now)
    demand = ends.writer.demand(now)
    assert (demand.frames_per_second, demand.largest_side, demand.slots) == (12.0, 320, frozenset({1, 2, 6}))
    assert demand.ticket == TICKET
    watch.join(Viewer(ViewerRequest(5.0, None)), now)
    assert ends.writer.demand(now).slots == frozenset(range(8))


def test_without_viewers_the_wish_runs_out(open_lane, watch):
    ends, viewer, now = open_lane(), Viewer(), monotonic()
    watch.join(viewer, now)
    watch.leave(viewer)
    watch.renew(now + 1.0)
    assert ends.writer.demand(now + 1.9) is not None
    assert ends.writer.demand(now + 2.1) is None


def test_a_frame_is_encoded_once_for_all_who_see_it_in_one_size(open_lane, watch, picture, numbers):
    ends, now = open_lane(), monotonic()
    viewers = [Viewer(ViewerRequest(15.0, None, 320)) for _ in range(16)] + [Viewer(ViewerRequest(15.0, None, 64))]
    for viewer in viewers:
        watch.join(viewer, now)
    ends.writer.write(0, picture(seed=1, height=60, width=64), numbers())
    watch.mark_new(0)
    messages = [watch.take(viewer, now) for viewer in viewers]
    assert watch.encoded == 2
    assert len({id(message) for message in messages}) == 2
    assert None not in messages


def test_nobody_can_take_it_so_it_is_neither_read_nor_encoded(open_lane, watch, picture, numbers, monkeypatch):
    ends, viewer, now = open_lane(), Viewer(), monotonic()
    watch.join(viewer, now)
    for number in range(2):
        ends.writer.write(number, picture(number), numbers())
        watch.mark_new(number)
        watch.take(viewer, now)  # and no acknowledgement
    reads = []
    monkeypatch.setattr(watch._reader, "read", lambda *given: reads.append(given))
    ends.writer.write(0, picture(9), numbers())
    watch.mark_new(0)
    assert watch.take(viewer, now + 1) is None
    assert (reads, watch.encoded) == ([], 2)


@pytest.mark.fault("W5")
def test_a_slow_viewer_gets_the_newest_and_the_fast_one_everything(open_lane, watch, picture, numbers):
    ends, now = open_lane(slots=1), monotonic()
    fast, slow = Viewer(ViewerRequest(60.0)), Viewer(ViewerRequest(60.0))
    watch.join(fast, now)
    watch.join(slow, now)
    seen_fast, seen_slow = [], []
    for step in range(100):
        now += 0.05
        ends.writer.write(0, picture(step), numbers(env_step=step))
        watch.mark_new(0)
        seen_fast += [env_step for _, env_step in heads(watch, fast, now)]
        if step % 30 == 29:
            seen_slow += [env_step for _, env_step in heads(watch, slow, now)]
    assert seen_fast == list(range(100))
    assert seen_slow == [29, 59, 89]
    assert slow.skipped > 90


def test_memory_is_one_frame_per_slot_whatever_viewers_do(open_lane, watch, picture, numbers):
    ends, now = open_lane(slots=2), monotonic()
    viewers = [Viewer(ViewerRequest(60.0, None, side)) for side in (64, 320) for _ in range(20)]
    for viewer in viewers:
        watch.join(viewer, now)
    for step in range(200):
        now += 0.05
        ends.writer.write(step % 2, picture(step % 256), numbers(env_step=step))
        watch.mark_new(step % 2)
        for viewer in viewers[: step % 40]:
            watch.take(viewer, now)  # some acknowledge never
    assert len(watch._shots) == 2
    assert all(len(shot.messages) <= 2 for shot in watch._shots.values())


def test_slots_that_nobody_wants_any_more_are_forgotten(open_lane, watch, picture, numbers):
    ends, viewer, now = open_lane(slots=2), Viewer(), monotonic()
    watch.join(viewer, now)
    for slot in range(2):
        ends.writer.write(slot, picture(slot), numbers())
        watch.mark_new(slot)
    assert len(heads(watch, viewer, now)) == 2
    viewer.request = ViewerRequest(slots=frozenset({1}))
    watch.renew(now)
    assert set(watch._shots) == {1}


def test_a_lost_ring_is_made_up_for(open_lane, watch, picture, numbers):
    ends, viewer, now = open_lane(), Viewer(), monotonic()
    watch.join(viewer, now)
    heads(watch, viewer, now)
    ends.writer.write(1, picture(5), numbers())
    assert heads(watch, viewer, now) == []
    watch.renew(now + 0.5)
    assert heads(watch, viewer, now + 0.5) == [(1, 7)]


def test_a_ring_for_a_slot_that_there_is_not_is_nobodys(open_lane, watch):
    open_lane(slots=2)
    viewer, now = Viewer(), monotonic()
    watch.join(viewer, now)
    heads(watch, viewer, now)
    for slot in (2, 1023, 2**32 - 1):
        watch.mark_new(slot)
    assert viewer.next_slot(now) is None


def test_states_in_words(open_lane, watch):
    viewer, now = Viewer(), monotonic()
    watch.join(viewer, now)
    assert (watch.status.condition, watch.status.reason) == ("unavailable", "The run has no frame buffer yet.")
    ends = open_lane(slots=2)
    ends.writer.write_heartbeat(beat(now, steps=5))
    assert watch.renew(now).condition == "connected"
    assert (watch.status.slot_count, watch.status.beat.env_steps) == (2, 5)
    late = watch.renew(now + STALE_SECONDS + 5)
    assert (late.condition, late.reason) == ("stale", "No step for 15 s.")
    ends.writer.write_heartbeat(beat(now, "failed", "pygame.error: no"))
    assert (watch.renew(now).condition, watch.status.reason) == ("failed", "pygame.error: no")
    ends.writer.write_heartbeat(beat(now, "closed"))
    assert (watch.renew(now).condition, watch.status.reason) == ("closed", "The run has ended.")


def test_a_run_that_was_killed_is_closed_not_stale(open_lane, watch):
    open_lane()
    watch._is_alive = lambda pid, started_at: (pid, started_at > 0) != (os.getpid(), True)
    assert watch.renew(monotonic()).condition == "closed"
    assert "without a word" in watch.status.reason


def test_a_run_that_goes_on_is_followed_into_its_new_lane(open_lane, watch, picture, numbers):
    old, viewer, now = open_lane(), Viewer(), monotonic()
    watch.join(viewer, now)
    for shade in range(3):
        old.writer.write(0, picture(shade), numbers(env_step=shade))
    watch.mark_new(0)
    assert heads(watch, viewer, now) == [(0, 2)]
    old.owner.close()
    assert watch.renew(now).condition == "closed"
    new = open_lane()
    assert watch.renew(now + 1).condition == "connected"
    for shade in range(3):
        new.writer.write(0, picture(shade), numbers(env_step=100 + shade))
    watch.mark_new(0)
    assert heads(watch, viewer, now + 1) == [(0, 102)]


def test_a_lane_that_is_none_is_said_and_a_good_one_is_still_waited_for(open_lane, watch):
    watch.path.write_bytes(b"hostile")
    assert watch.renew(monotonic()).condition == "unavailable"
    assert "is no frame buffer" in watch.status.reason
    watch.path.unlink()
    open_lane()
    assert watch.renew(monotonic()).condition == "connected"


def test_steps_per_second_come_from_the_beats(open_lane, watch):
    ends = open_lane()
    start = monotonic()
    for second in range(4):
        ends.writer.write_heartbeat(beat(start + second, steps=1000 * second))
        watch.renew(start + second)
    assert watch.status.steps_per_second == pytest.approx(1000)


def test_dropped_frames_are_counted_over_all_lanes(open_lane, watch, picture, numbers):
    ends, viewer, now = open_lane(), Viewer(), monotonic()
    watch.join(viewer, now)
    ends.writer.write(0, picture(1), numbers())
    os.pwrite(ends.owner.descriptor, b"xx", ends.owner.about.image_at(0, 1))
    watch.mark_new(0)
    assert watch.take(viewer, now) is None
    assert watch.renew(now).dropped == 1


def test_a_last_beat_that_counts_no_steps_does_not_make_the_rate_negative(open_lane, watch):
    ends, now = open_lane(), monotonic()
    for second, steps in ((0.0, 0), (1.0, 30_000)):
        ends.writer.write_heartbeat(beat(now + second, steps=steps))
        watch.renew(now + second)
    ends.writer.write_heartbeat(beat(now + 2.0, "closed"))
    assert watch.renew(now + 2.0).steps_per_second is None


def test_a_run_that_goes_back_to_a_checkpoint_has_no_rate_until_it_moves_on(open_lane, watch):
    ends, now = open_lane(), monotonic()
    for second, steps in ((0.0, 10_000), (1.0, 20_000), (2.0, 5_000)):
        ends.writer.write_heartbeat(beat(now + second, steps=steps))
        watch.renew(now + second)
    ends.writer.write_heartbeat(beat(now + 3.0, steps=6_000))
    assert watch.renew(now + 3.0).steps_per_second == pytest.approx(1000)
