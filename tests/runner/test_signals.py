import os
import signal
import threading

import pytest

from palaestra.runner.signals import STOPPING, StopNow, exit_code_of, stop_on_signals


@pytest.mark.fault("R3")
def test_the_first_signal_is_only_remembered():
    with stop_on_signals() as stop:
        assert not stop
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop
        assert stop.signal == signal.SIGTERM


def test_the_second_signal_raises_what_no_except_exception_holds_up():
    with pytest.raises(StopNow) as caught, stop_on_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
    assert caught.value.exit_code == 130
    assert not isinstance(caught.value, Exception)


def test_after_the_second_signal_a_third_is_not_caught_any_more():
    with pytest.raises(StopNow), stop_on_signals() as stop:
        stop.handle(signal.SIGTERM, None)
        try:
            stop.handle(signal.SIGTERM, None)
        finally:
            assert {signal.getsignal(number) for number in STOPPING} == {signal.SIG_DFL}


def test_handlers_are_as_before_when_the_block_ends():
    before = [signal.getsignal(number) for number in STOPPING]
    with stop_on_signals():
        assert [signal.getsignal(number) for number in STOPPING] != before
    assert [signal.getsignal(number) for number in STOPPING] == before


@pytest.mark.fault("R3")
def test_exit_codes_are_those_of_a_shell_and_slurms_warning_counts_as_sigterm():
    assert [exit_code_of(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)] == [130, 143, 143]


def test_outside_the_main_thread_there_is_nothing_to_listen_to_and_nothing_breaks():
    observed = []

    def work():
        with stop_on_signals() as stop:
            observed.append(bool(stop))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert observed == [False]
