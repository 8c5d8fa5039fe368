from __future__ import annotations

import os
import select
import struct
import subprocess
import sys
from time import monotonic

import pytest

from palaestra.rendering.frame_buffer import InvalidRequest, frame_buffer_path
from palaestra.rendering.frame_format import Heartbeat
from palaestra.rendering.hub import STALE_SECONDS, Hub, TooManyViewers, Watch
from palaestra.rendering.notifier import NotificationReceiver
from palaestra.rendering.viewer import Viewer, ViewerRequest
from palaestra.runs.processes import is_alive


@pytest.fixture
def hub(buffers):
    made = Hub(is_alive, max_viewers=3)
    yield made
    made.close()


def test_one_notifier_serves_many_frame_buffers_and_distinguishes_them(hub, open_frame_buffer, image, numbers):
    ready = []
    buffers_of = {name: open_frame_buffer(name) for name in ("ONE", "TWO")}
    viewers = {name: Viewer(ViewerRequest(), lambda name=name: ready.append(name)) for name in buffers_of}
    watches = {name: hub.join(name, "train", viewers[name]) for name in buffers_of}
    for name in buffers_of:
        while watches[name].take(viewers[name], monotonic()) is not None:
            pass
    ready.clear()
    writer = buffers_of["TWO"].writer
    writer.write(1, image(5), numbers())
    writer.notify(writer.demand(monotonic()), 1)
    assert select.select([hub], [], [], 5)[0] == [hub]
    hub.on_notification()
    assert ready == ["TWO"]
    assert watches["TWO"].take(viewers["TWO"], monotonic())[4] == 1
    assert watches["ONE"].take(viewers["ONE"], monotonic()) is None


def test_a_run_that_has_not_begun_can_be_waited_for(hub, open_frame_buffer):
    viewer = Viewer()
    watch = hub.join("LATER", "train", viewer)
    assert watch.status.condition == "unavailable"
    ends = open_frame_buffer("LATER")
    hub.renew(monotonic())
    assert watch.status.condition == "connected"
    assert ends.writer.demand(monotonic()) is not None


def test_viewers_of_one_frame_buffer_share_a_watch_that_ends_with_the_last(hub, open_frame_buffer):
    open_frame_buffer()
    one, two = Viewer(), Viewer()
    watch = hub.join("RUN", "train", one)
    assert hub.join("RUN", "train", two) is watch
    hub.leave(watch, one)
    assert hub.viewer_count == 1
    hub.leave(watch, two)
    assert hub.viewer_count == 0
    assert hub.join("RUN", "train", one) is not watch


def test_one_too_many_is_refused_and_the_others_stay(hub, open_frame_buffer):
    open_frame_buffer()
    joined = [(hub.join("RUN", "train", viewer), viewer) for viewer in (Viewer(), Viewer(), Viewer())]
    with pytest.raises(TooManyViewers, match="3 viewers are connected"):
        hub.join("RUN", "train", Viewer())
    assert hub.viewer_count == 3
    hub.leave(*joined[0])
    hub.join("RUN", "train", Viewer())


def test_a_name_that_leads_elsewhere_is_refused(hub):
    with pytest.raises(InvalidRequest):
        hub.join("../../etc/passwd", "train", Viewer())
    assert hub.viewer_count == 0


def test_notifications_with_a_ticket_that_nobody_has_are_ignored(hub, open_frame_buffer, image, numbers):
    ends, viewer = open_frame_buffer(), Viewer()
    watch = hub.join("RUN", "train", viewer)
    demand = ends.writer.demand(monotonic())
    hub.leave(watch, viewer)
    ends.writer.notify(demand, 1)
    hub.on_notification()
    assert hub.viewer_count == 0


def test_the_servers_side_loads_neither_torch_nor_gymnasium():
    modules = ["hub", "hud", "images", "frame_reader", "frame_buffer", "frame_writer", "live_view"]
    code = "".join(f"import palaestra.rendering.{module}\n" for module in modules)
    code += "import sys; print(sorted({'torch', 'gymnasium', 'pygame'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


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


def test_the_merged_demand_of_all_viewers_is_written_into_the_frame_buffer(open_frame_buffer, watch):
    ends, now = open_frame_buffer(slots=8), monotonic()
    watch.join(Viewer(ViewerRequest(5.0, frozenset({1, 2}), 100)), now)
    watch.join(Viewer(ViewerRequest(12.0, frozenset({6}), 300)), now)
    demand = ends.writer.demand(now)
    assert (demand.frames_per_second, demand.largest_side, demand.slots) == (12.0, 320, frozenset({1, 2, 6}))
    assert demand.ticket == TICKET
    watch.join(Viewer(ViewerRequest(5.0, None)), now)
    assert ends.writer.demand(now).slots == frozenset(range(8))


def test_without_viewers_the_demand_expires(open_frame_buffer, watch):
    ends, viewer, now = open_frame_buffer(), Viewer(), monotonic()
    watch.join(viewer, now)
    watch.leave(viewer)
    watch.renew(now + 1.0)
    assert ends.writer.demand(now + 1.9) is not None
    assert ends.writer.demand(now + 2.1) is None


def test_a_frame_is_encoded_once_for_all_who_see_it_in_one_size(open_frame_buffer, watch, image, numbers):
    ends, now = open_frame_buffer(), monotonic()
    viewers = [Viewer(ViewerRequest(15.0, None, 320)) for _ in range(16)] + [Viewer(ViewerRequest(15.0, None, 64))]
    for viewer in viewers:
        watch.join(viewer, now)
    ends.writer.write(0, image(seed=1, height=60, width=64), numbers())
    watch.mark_new(0)
    messages = [watch.take(viewer, now) for viewer in viewers]
    assert watch.encoded == 2
    assert len({id(message) for message in messages}) == 2
    assert None not in messages


def test_nobody_can_take_it_so_it_is_neither_read_nor_encoded(open_frame_buffer, watch, image, numbers, monkeypatch):
    ends, viewer, now = open_frame_buffer(), Viewer(), monotonic()
    watch.join(viewer, now)
    for number in range(2):
        ends.writer.write(number, image(number), numbers())
        watch.mark_new(number)
        watch.take(viewer, now)  # and no acknowledgement
    reads = []
    monkeypatch.setattr(watch._reader, "read", lambda *given: reads.append(given))
    ends.writer.write(0, image(9), numbers())
    watch.mark_new(0)
    assert watch.take(viewer, now + 1) is None
    assert (reads, watch.encoded) == ([], 2)


@pytest.mark.fault("W5")
def test_a_slow_viewer_gets_the_newest_and_the_fast_one_everything(open_frame_buffer, watch, image, numbers):
    ends, now = open_frame_buffer(slots=1), monotonic()
    fast, slow = Viewer(ViewerRequest(60.0)), Viewer(ViewerRequest(60.0))
    watch.join(fast, now)
    watch.join(slow, now)
    seen_fast, seen_slow = [], []
    for step in range(100):
        now += 0.05
        ends.writer.write(0, image(step), numbers(env_step=step))
        watch.mark_new(0)
        seen_fast += [env_step for _, env_step in heads(watch, fast, now)]
        if step % 30 == 29:
            seen_slow += [env_step for _, env_step in heads(watch, slow, now)]
    assert seen_fast == list(range(100))
    assert seen_slow == [29, 59, 89]
    assert slow.skipped > 90


def test_memory_is_one_frame_per_slot_whatever_viewers_do(open_frame_buffer, watch, image, numbers):
    ends, now = open_frame_buffer(slots=2), monotonic()
    viewers = [Viewer(ViewerRequest(60.0, None, side)) for side in (64, 320) for _ in range(20)]
    for viewer in viewers:
        watch.join(viewer, now)
    for step in range(200):
        now += 0.05
        ends.writer.write(step % 2, image(step % 256), numbers(env_step=step))
        watch.mark_new(step % 2)
        for viewer in viewers[: step % 40]:
            watch.take(viewer, now)  # some acknowledge never
    assert len(watch._newest_frames) == 2
    assert all(len(newest.messages) <= 2 for newest in watch._newest_frames.values())


def test_slots_that_nobody_wants_any_more_are_forgotten(open_frame_buffer, watch, image, numbers):
    ends, viewer, now = open_frame_buffer(slots=2), Viewer(), monotonic()
    watch.join(viewer, now)
    for slot in range(2):
        ends.writer.write(slot, image(slot), numbers())
        watch.mark_new(slot)
    assert len(heads(watch, viewer, now)) == 2
    viewer.request = ViewerRequest(slots=frozenset({1}))
    watch.renew(now)
    assert set(watch._newest_frames) == {1}


def test_a_lost_notification_is_made_up_for(open_frame_buffer, watch, image, numbers):
    ends, viewer, now = open_frame_buffer(), Viewer(), monotonic()
    watch.join(viewer, now)
    heads(watch, viewer, now)
    ends.writer.write(1, image(5), numbers())
    assert heads(watch, viewer, now) == []
    watch.renew(now + 0.5)
    assert heads(watch, viewer, now + 0.5) == [(1, 7)]


def test_a_notification_for_a_slot_that_there_is_not_is_nobodys(open_frame_buffer, watch):
    open_frame_buffer(slots=2)
    viewer, now = Viewer(), monotonic()
    watch.join(viewer, now)
    heads(watch, viewer, now)
    for slot in (2, 1023, 2**32 - 1):
        watch.mark_new(slot)
    assert viewer.next_slot(now) is None


def test_states_in_words(open_frame_buffer, watch):
    viewer, now = Viewer(), monotonic()
    watch.join(viewer, now)
    assert (watch.status.condition, watch.status.reason) == ("unavailable", "The run has no frame buffer yet.")
    ends = open_frame_buffer(slots=2)
    ends.writer.write_heartbeat(beat(now, steps=5))
    assert watch.renew(now).condition == "connected"
    assert (watch.status.slot_count, watch.status.heartbeat.env_steps) == (2, 5)
    late = watch.renew(now + STALE_SECONDS + 5)
    assert (late.condition, late.reason) == ("stale", "No step for 15 s.")
    ends.writer.write_heartbeat(beat(now, "failed", "pygame.error: no"))
    assert (watch.renew(now).condition, watch.status.reason) == ("failed", "pygame.error: no")
    ends.writer.write_heartbeat(beat(now, "closed"))
    assert (watch.renew(now).condition, watch.status.reason) == ("closed", "The run has ended.")


def test_a_run_that_was_killed_is_closed_not_stale(open_frame_buffer, watch):
    open_frame_buffer()
    watch._is_alive = lambda pid, started_at: (pid, started_at > 0) != (os.getpid(), True)
    assert watch.renew(monotonic()).condition == "closed"
    assert "ended unexpectedly" in watch.status.reason


def test_a_resumed_run_is_followed_into_its_new_frame_buffer(open_frame_buffer, watch, image, numbers):
    old, viewer, now = open_frame_buffer(), Viewer(), monotonic()
    watch.join(viewer, now)
    for shade in range(3):
        old.writer.write(0, image(shade), numbers(env_step=shade))
    watch.mark_new(0)
    assert heads(watch, viewer, now) == [(0, 2)]
    old.owner.close()
    assert watch.renew(now).condition == "closed"
    new = open_frame_buffer()
    assert watch.renew(now + 1).condition == "connected"
    for shade in range(3):
        new.writer.write(0, image(shade), numbers(env_step=100 + shade))
    watch.mark_new(0)
    assert heads(watch, viewer, now + 1) == [(0, 102)]


def test_an_invalid_frame_buffer_is_reported_and_a_valid_one_is_still_awaited(open_frame_buffer, watch):
    watch.path.write_bytes(b"hostile")
    assert watch.renew(monotonic()).condition == "unavailable"
    assert "is not a frame buffer" in watch.status.reason
    watch.path.unlink()
    open_frame_buffer()
    assert watch.renew(monotonic()).condition == "connected"


def test_steps_per_second_come_from_the_heartbeats(open_frame_buffer, watch):
    ends = open_frame_buffer()
    start = monotonic()
    for second in range(4):
        ends.writer.write_heartbeat(beat(start + second, steps=1000 * second))
        watch.renew(start + second)
    assert watch.status.steps_per_second == pytest.approx(1000)


def test_dropped_frames_are_counted_over_all_frame_buffers(open_frame_buffer, watch, image, numbers):
    ends, viewer, now = open_frame_buffer(), Viewer(), monotonic()
    watch.join(viewer, now)
    ends.writer.write(0, image(1), numbers())
    os.pwrite(ends.owner.descriptor, b"xx", ends.owner.about.image_at(0, 1))
    watch.mark_new(0)
    assert watch.take(viewer, now) is None
    assert watch.renew(now).dropped == 1


def test_a_last_heartbeat_that_counts_no_steps_does_not_make_the_rate_negative(open_frame_buffer, watch):
    ends, now = open_frame_buffer(), monotonic()
    for second, steps in ((0.0, 0), (1.0, 30_000)):
        ends.writer.write_heartbeat(beat(now + second, steps=steps))
        watch.renew(now + second)
    ends.writer.write_heartbeat(beat(now + 2.0, "closed"))
    assert watch.renew(now + 2.0).steps_per_second is None


def test_a_run_that_goes_back_to_a_checkpoint_has_no_rate_until_it_moves_on(open_frame_buffer, watch):
    ends, now = open_frame_buffer(), monotonic()
    for second, steps in ((0.0, 10_000), (1.0, 20_000), (2.0, 5_000)):
        ends.writer.write_heartbeat(beat(now + second, steps=steps))
        watch.renew(now + second)
    ends.writer.write_heartbeat(beat(now + 3.0, steps=6_000))
    assert watch.renew(now + 3.0).steps_per_second == pytest.approx(1000)
