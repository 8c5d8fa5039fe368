from __future__ import annotations

import pytest

from palaestra.core.metrics_logger import Sample
from palaestra.loggers.fanout import LoggerFanout

SAMPLE = Sample(step=1, metrics={"a": 1.0})


class ListLogger:
    def __init__(self, name: str = "list") -> None:
        self.name = name
        self.heard: list[object] = []

    def write(self, sample: Sample) -> None:
        self.heard.append(sample.step)

    def flush(self) -> None:
        self.heard.append("flush")

    def close(self) -> None:
        self.heard.append("close")


class FailingLogger(ListLogger):
    """Raises in one method, works in the others."""

    def __init__(self, where: str) -> None:
        super().__init__("failing")
        setattr(self, where, self._fail)

    def _fail(self, *_: object) -> None:
        raise ZeroDivisionError("no luck")


class FullLogger(ListLogger):
    def rewind(self, step: int) -> None:
        self.heard.append(("rewind", step))

    def note(self, text: str) -> None:
        self.heard.append(text)

    def checkpoint_saved(self, checkpoint: object) -> None:
        self.heard.append(checkpoint)

    def table_made(self, name: str, columns: object, rows: object) -> None:
        self.heard.append((name, columns, rows))

    def files_made(self, name: str, kind: str, files: object) -> None:
        self.heard.append((name, kind, files))


@pytest.fixture
def dropped() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def fanout(dropped: list[tuple[str, str]]) -> LoggerFanout:
    return LoggerFanout(lambda name, error: dropped.append((name, str(error))))


def test_several_samples_reach_every_sink_but_the_one_that_fails_among_them(fanout, dropped):
    class FailsAtTheSecond(ListLogger):
        def write(self, sample: Sample) -> None:
            super().write(sample)
            if sample.step == 2:
                raise ZeroDivisionError("no luck")

    loggers = [FailsAtTheSecond("failing"), ListLogger("other")]
    for logger in loggers:
        fanout.add(logger.name, lambda logger=logger: logger)
    fanout.write(*(Sample(step=step, metrics={}) for step in (1, 2, 3)))
    assert [logger.heard for logger in loggers] == [[1, 2, "close"], [1, 2, 3]]
    assert dropped == [("failing", "no luck")]


def test_every_sink_receives_every_call_in_order(fanout, dropped):
    loggers = [ListLogger("a"), ListLogger("b")]
    for logger in loggers:
        fanout.add(logger.name, lambda logger=logger: logger)
    with fanout:
        fanout.write(SAMPLE)
        fanout.flush()
    assert [logger.heard for logger in loggers] == [[1, "flush", "close"]] * 2
    assert dropped == []


@pytest.mark.fault("S1", "S4")
@pytest.mark.parametrize("where", ["write", "flush", "close"])
def test_a_failing_sink_is_named_once_and_the_others_go_on(fanout, dropped, where):
    good = ListLogger("good")
    fanout.add("failing", lambda: FailingLogger(where))
    fanout.add("good", lambda: good)
    for _ in range(3):
        fanout.write(SAMPLE)
        fanout.flush()
    fanout.close()
    assert dropped == [("failing", "no luck")]
    assert good.heard == [1, "flush"] * 3 + ["close"]


def test_a_dropped_sink_is_closed_so_that_it_holds_nothing_open(fanout):
    logger = FailingLogger("write")
    fanout.add("failing", lambda: logger)
    fanout.write(SAMPLE)
    assert logger.heard == ["close"]
    assert fanout.names == []


def test_a_sink_that_cannot_be_made_is_dropped_by_name(fanout, dropped):
    fanout.add("broken", lambda: FailingLogger("no_such")._fail())
    fanout.write(SAMPLE)
    assert dropped == [("broken", "no luck")]


def test_closing_twice_closes_each_sink_once(fanout):
    logger = ListLogger()
    fanout.add("list", lambda: logger)
    fanout.close()
    fanout.close()
    assert logger.heard == ["close"]


def test_only_loggers_with_the_method_get_rewinds_checkpoints_notes_tables_and_files(fanout, dropped):
    plain, curious = ListLogger("plain"), FullLogger("curious")
    fanout.add("plain", lambda: plain)
    fanout.add("curious", lambda: curious)
    fanout.rewind(7)
    fanout.note("hello")
    fanout.checkpoint_saved("a checkpoint")
    fanout.table_made("times", ("ms",), [[3]])
    fanout.files_made("scheme", "algorithm", [])
    assert plain.heard == []
    assert curious.heard[:3] == [("rewind", 7), "hello", "a checkpoint"]
    assert curious.heard[3:] == [("times", ("ms",), [[3]]), ("scheme", "algorithm", [])]
    assert dropped == []


def test_ctrl_c_is_not_swallowed(fanout, dropped):
    class Interrupted(ListLogger):
        def write(self, sample: Sample) -> None:
            raise KeyboardInterrupt

    fanout.add("interrupted", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        fanout.write(SAMPLE)
    assert dropped == []


class BackgroundFlushLogger(ListLogger):
    """Its flush is in two parts, of which the second may fail."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__("patient")
        self.error = error

    def begin_flush(self):
        self.heard.append("begin")
        return self._finish

    def _finish(self) -> None:
        self.heard.append("finish")
        if self.error is not None:
            raise self.error


def test_a_flush_can_be_left_to_another_thread_where_a_sink_waits_for_a_disk(fanout, dropped):
    quick, patient = ListLogger("quick"), BackgroundFlushLogger()
    fanout.add("quick", lambda: quick)
    fanout.add("patient", lambda: patient)
    finish = fanout.begin_flush()
    assert (quick.heard, patient.heard) == (["flush"], ["begin"])
    finish()
    assert (quick.heard, patient.heard, dropped) == (["flush"], ["begin", "finish"], [])


def test_a_sink_that_fails_in_the_other_thread_is_dropped_here_with_the_next_call(fanout, dropped):
    patient, good = BackgroundFlushLogger(ZeroDivisionError("no luck")), ListLogger("good")
    fanout.add("patient", lambda: patient)
    fanout.add("good", lambda: good)
    finish = fanout.begin_flush()
    finish()
    finish()
    assert dropped == []
    fanout.write(SAMPLE)
    assert dropped == [("patient", "no luck")]
    assert (fanout.names, patient.heard, good.heard) == (["good"], ["begin", "finish", "finish", "close"], ["flush", 1])
