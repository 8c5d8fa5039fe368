import os
import signal
from pathlib import Path

import pytest

from palaestra.core.errors import NotFound, RunFailed
from palaestra.core.trials import SlotsWanted, TrialEnd, TrialOrder
from palaestra.sweeps import fan_out as module
from palaestra.sweeps.fan_out import RESTARTS, fan_out, find_slots
from palaestra.sweeps.local_slots import LocalSlots


class Work:
    def __init__(self, names, unwanted=()):
        self.waiting = [TrialOrder(name, "", Path()) for name in names]
        self.ends, self._unwanted = [], unwanted
        self.continuations = []

    def next_order(self):
        return self.waiting.pop(0) if self.waiting else None

    def ended(self, order, end, *, was_stopped):
        self.ends.append((order.name, end.exit_code, was_stopped))
        self.lost = {**getattr(self, "lost", {}), order.name: end.is_lost}

    def continued(self, order, end):
        self.continuations.append(order.name)

    def unwanted(self):
        return self._unwanted


class Slots:
    """Ends one trial a look; those in `endless` end only when they are stopped."""

    def __init__(self, slots=2, codes=None, endless=(), on_look=lambda: None, lost=()):
        self.lost = lost
        self.slots, self.codes, self.endless, self.on_look = slots, codes or {}, endless, on_look
        self.running, self.started, self.stops, self.most, self.is_closed = [], [], [], 0, False

    def start(self, order):
        self.started.append(order.name)
        self.running.append(order.name)
        self.most = max(self.most, len(self.running))
        return f"handle of {order.name}"

    def finished(self, seconds):
        self.on_look()
        free = [name for name in self.running if name not in self.endless or f"handle of {name}" in self.stops]
        if not free:
            return []
        self.running.remove(free[0])
        codes = self.codes.get(free[0], [0])
        code = codes.pop(0) if len(codes) > 1 else codes[0]
        return [TrialEnd(f"handle of {free[0]}", code, is_lost=free[0] in self.lost and code != 0)]

    def stop(self, handle):
        self.stops.append(handle)

    def close(self):
        self.is_closed = True


def test_all_is_done_with_no_more_side_by_side_than_there_are_slots():
    work, slots = Work("abcdefg"), Slots(slots=3)
    assert fan_out(slots, work) == 0
    assert sorted(name for name, _, _ in work.ends) == list("abcdefg")
    assert slots.most == 3
    assert slots.is_closed


def test_one_that_fails_does_not_stop_the_others():
    work = Work("abc")
    fan_out(Slots(codes={"a": [1]}), work)
    assert {name: code for name, code, _ in work.ends} == {"a": 1, "b": 0, "c": 0}


def test_one_that_is_killed_is_started_again_and_given_up_in_the_end():
    work, slots = Work("ab"), Slots(codes={"a": [-9, 0], "b": [-9]})
    fan_out(slots, work)
    assert {name: code for name, code, _ in work.ends} == {"a": 0, "b": -9}
    assert (slots.started.count("a"), slots.started.count("b")) == (2, 1 + RESTARTS)
    assert work.continuations.count("b") == RESTARTS


def test_one_whose_machine_is_lost_goes_on_elsewhere_and_is_lost_for_good_after_three_times():
    work, slots = Work("ab"), Slots(codes={"a": [1, 0], "b": [1]}, lost=("a", "b"))
    fan_out(slots, work)
    assert (slots.started.count("a"), slots.started.count("b")) == (2, 1 + RESTARTS)
    assert work.lost == {"a": False, "b": True}


def test_slots_that_come_and_go_are_followed():
    """One at first, none for a while, then three: nothing is started that has no slot, and everything is done."""
    work, slots = Work("abcdef"), Slots(slots=1)
    counts = iter([1, 1, 0, 0, 0])
    slots.on_look = lambda: setattr(slots, "slots", next(counts, 3))
    assert fan_out(slots, work) == 0
    assert sorted(name for name, _, _ in work.ends) == list("abcdef")
    assert slots.most == 3


def test_without_any_slot_for_long_the_rest_is_left_for_another_time(monkeypatch):
    monkeypatch.setattr(module, "EMPTY_SECONDS", 0.0)
    slots = Slots(slots=0)
    with pytest.raises(RunFailed, match=r"no slot.*same command continues"):
        fan_out(slots, Work("a"))
    assert slots.is_closed


def test_who_is_not_wanted_any_more_is_asked_once_to_stop():
    work, slots = Work("ab", unwanted=["a"]), Slots(endless=("a",), codes={"a": [143]})
    assert fan_out(slots, work) == 0
    assert slots.stops == ["handle of a"]
    assert ("a", 143, False) in work.ends


def test_after_a_signal_nothing_is_started_and_all_are_asked_to_stop():
    looks = []

    def interrupt_once():
        looks.append(1)
        if len(looks) == 1:
            os.kill(os.getpid(), signal.SIGINT)

    work = Work("abcd")
    slots = Slots(endless=("a", "b"), codes={"a": [143], "b": [143]}, on_look=interrupt_once)
    assert fan_out(slots, work) == 130
    assert slots.started == ["a", "b"]
    assert sorted(slots.stops) == ["handle of a", "handle of b"]
    assert work.ends == [("a", 143, True), ("b", 143, True)]


def test_the_second_signal_ends_everything_at_once():
    slots = Slots(endless=("a",), on_look=lambda: os.kill(os.getpid(), signal.SIGINT))
    slots.stop = lambda handle: None
    assert fan_out(slots, Work("a")) == 130
    assert slots.is_closed


def test_slots_of_this_machine_or_of_a_plugin(monkeypatch):
    assert isinstance(find_slots("local")(SlotsWanted(3)), LocalSlots)
    monkeypatch.setattr(module, "load_service", lambda name, service: lambda wanted: (name, service, wanted.count))
    assert find_slots("ray")(SlotsWanted(3)) == ("ray", "trial_slots", 3)


def test_a_plugin_that_is_not_there_is_not_found():
    with pytest.raises(NotFound, match="No executor named 'elsewhere'"):
        find_slots("elsewhere")
