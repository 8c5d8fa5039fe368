import time

from palaestra.core.clock import Clock, SystemClock


def test_the_system_clock_lies_between_two_inspects_the_clock():
    clock: Clock = SystemClock()
    before, now, after = time.time(), clock.now(), time.time()
    assert before <= now <= after
    assert clock.monotonic() <= clock.monotonic()
