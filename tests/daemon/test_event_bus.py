import threading

from palaestra.daemon.event_bus import EventBus


def test_events_are_numbered_and_can_be_read_from_a_sequence():
    event_bus = EventBus()
    for run in "abc":
        event_bus.publish("changed", run, None)
    assert [(event.sequence, event.run) for event in event_bus.since(1)] == [(2, "b"), (3, "c")]
    assert event_bus.since(3) == []
    assert event_bus.sequence == 3


def test_since_returns_none_when_events_were_dropped():
    event_bus = EventBus(max_events=2)
    for run in "abcd":
        event_bus.publish("changed", run, None)
    assert event_bus.since(1) is None
    assert [event.run for event in event_bus.since(2)] == ["c", "d"]
    assert event_bus.since(99) is None  # a number of a daemon that was here before


def test_repeated_changes_displace_no_other_events():
    event_bus = EventBus(max_events=4)
    event_bus.publish("started", "a", None)
    for number in range(1000):
        event_bus.publish("changed", "ab"[number % 2], None)
    assert [(event.sequence, event.change, event.run) for event in event_bus.since(0)] == [
        (1, "started", "a"),
        (1000, "changed", "a"),
        (1001, "changed", "b"),
    ]
    assert [event.sequence for event in event_bus.since(1000)] == [1001]


def test_a_change_replaced_by_a_newer_one_does_not_count_as_dropped():
    event_bus = EventBus(max_events=2)
    for change, run in (("changed", "a"), ("changed", "b"), ("changed", "a")):
        event_bus.publish(change, run, None)
    assert [event.sequence for event in event_bus.since(0)] == [2, 3]
    event_bus.publish("ended", "a", None)
    assert event_bus.since(1) is None, "number 2 went for lack of space"
    assert [event.sequence for event in event_bus.since(2)] == [3, 4]


def test_changes_of_removed_runs_are_dropped():
    event_bus = EventBus(max_events=3)
    for number in range(100):
        event_bus.publish("changed", f"run {number}", None)
        event_bus.publish("removed", f"run {number}", None)
    assert event_bus._newest_change == {}


def test_a_subscriber_gets_events_until_it_unsubscribes():
    event_bus, received = EventBus(), []
    unsubscribe = event_bus.subscribe(received.append)
    event_bus.publish("accepted", "a", None)
    unsubscribe()
    unsubscribe()
    event_bus.publish("ended", "a", None)
    assert [event.change for event in received] == ["accepted"]


def test_sequence_numbers_are_unique_across_threads():
    event_bus = EventBus()
    threads = [
        threading.Thread(target=lambda: [event_bus.publish("started", "a", None) for _ in range(200)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [event.sequence for event in event_bus.since(0)] == list(range(1, 801))
