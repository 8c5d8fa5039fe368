import threading

from palaestra.daemon.news import Newsroom


def test_news_are_numbered_and_can_be_caught_up_with():
    room = Newsroom()
    for run in "abc":
        room.tell("changed", run, None)
    assert [(news.number, news.run) for news in room.since(1)] == [(2, "b"), (3, "c")]
    assert room.since(3) == []
    assert room.number == 3


def test_who_was_away_too_long_is_told_to_list_anew():
    room = Newsroom(kept=2)
    for run in "abcd":
        room.tell("changed", run, None)
    assert room.since(1) is None
    assert [news.run for news in room.since(2)] == ["c", "d"]
    assert room.since(99) is None  # a number of a daemon that was here before


def test_heartbeats_without_end_take_no_room_and_push_nothing_out():
    room = Newsroom(kept=4)
    room.tell("started", "a", None)
    for number in range(1000):
        room.tell("changed", "ab"[number % 2], None)
    assert [(news.number, news.happening, news.run) for news in room.since(0)] == [
        (1, "started", "a"),
        (1000, "changed", "a"),
        (1001, "changed", "b"),
    ]
    assert [news.number for news in room.since(1000)] == [1001]


def test_a_change_that_gave_way_to_a_newer_one_is_not_missed():
    room = Newsroom(kept=2)
    for happening, run in (("changed", "a"), ("changed", "b"), ("changed", "a")):
        room.tell(happening, run, None)
    assert [news.number for news in room.since(0)] == [2, 3]
    room.tell("ended", "a", None)
    assert room.since(1) is None, "number 2 went for want of room"
    assert [news.number for news in room.since(2)] == [3, 4]


def test_changes_of_removed_runs_are_forgotten():
    room = Newsroom(kept=3)
    for number in range(100):
        room.tell("changed", f"run {number}", None)
        room.tell("removed", f"run {number}", None)
    assert room._changed == {}


def test_listeners_hear_until_they_leave():
    room, heard = Newsroom(), []
    forget = room.listen(heard.append)
    room.tell("accepted", "a", None)
    forget()
    forget()
    room.tell("ended", "a", None)
    assert [news.happening for news in heard] == ["accepted"]


def test_numbers_stay_whole_when_many_tell():
    room = Newsroom()
    threads = [threading.Thread(target=lambda: [room.tell("started", "a", None) for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [news.number for news in room.since(0)] == list(range(1, 801))
