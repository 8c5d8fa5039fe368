from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c as tensorboard_checksum

from palaestra.loggers.event_file import (
    WAITING_EVENTS,
    EventFile,
    ScalarBatch,
    ScalarBatches,
    frame_batch,
    frame_events,
    layout_of,
    masked_crc32c,
    scalars_event,
    session_start_event,
    step_bytes_of,
    text_event,
    version_event,
)


@pytest.mark.parametrize("size", [0, 1, 8, 16, 17, 71, 335, 1024, 1025, 3000])
def test_checksums_equal_those_of_tensorboard_at_every_length(size):
    generator = random.Random(size)
    records = [generator.randbytes(size) for _ in range(3)]
    assert masked_crc32c(records) == [tensorboard_checksum(record) for record in records]


def test_records_are_framed_as_tensorboard_reads_them(tmp_path):
    path = tmp_path / "deep" / "events.out.tfevents.1"
    records = [b"x" * size for size in (40, 40, 41, 2000, 40)]
    file = EventFile(path)
    file.append(*records[:3])
    file.append(*records[3:])
    file.close()
    assert list(RawEventFileLoader(str(path)).Load()) == records


def test_a_file_that_is_there_is_never_overwritten(tmp_path):
    path = tmp_path / "events"
    path.write_bytes(b"precious")
    with pytest.raises(FileExistsError):
        EventFile(path)
    assert path.read_bytes() == b"precious"


def test_a_full_disk_is_an_error_here_and_not_in_a_thread(tmp_path, monkeypatch):
    file = EventFile(tmp_path / "events")
    file.close()
    with Path("/dev/full").open("wb", buffering=0) as full_disk:
        monkeypatch.setattr(file, "_file", full_disk)
        file.append(b"x" * 40)
        with pytest.raises(OSError, match="No space left"):
            file.flush()
        file.append(b"x" * 40)
        with pytest.raises(OSError, match="No space left"):
            file.close()
        assert full_disk.closed


def test_records_wait_for_each_other_but_not_for_ever(tmp_path):
    file = EventFile(tmp_path / "events")
    file.append(*[b"x" * 2000] * (WAITING_EVENTS - 1))
    assert (tmp_path / "events").stat().st_size == 0
    file.append(b"y" * 2000)
    assert (tmp_path / "events").stat().st_size > 2000 * WAITING_EVENTS - 10_000  # but for Python's own buffer
    file.close()


@pytest.mark.parametrize("step", [0, 1, 127, 70_000, 2**40])
def test_many_that_are_alike_are_framed_as_each_by_itself(step):
    values = [0.0, 1.5, -3e38, 1e300, 22.0]
    points = ScalarBatch(("a/b", "c"), layout_of(("a/b", "c"), step_bytes_of(step)))
    for number, value in enumerate(values):
        points.moments.append(1000.25 + number)
        points.steps.append(step)
        points.rows.append((value, 2 * value))
    assert frame_batch(points) == b"".join(frame_events(list(points.encode_each())))


def test_those_that_wait_come_before_many_at_once(tmp_path):
    path = tmp_path / "events"
    file = EventFile(path)
    file.append(b"first" * 9)
    points = ScalarBatch(("c",), layout_of(("c",), 1), [1.0, 1.0], [7, 8], [(1.0,), (2.0,)])
    file.append_batch(points)
    file.append(b"last" * 9)
    file.close()
    alike = [scalars_event(1.0, step, {"c": value}) for step, value in ((7, 1.0), (8, 2.0))]
    assert list(RawEventFileLoader(str(path)).Load()) == [b"first" * 9, *alike, b"last" * 9]


def test_points_of_the_same_tags_stand_together_in_the_order_in_which_they_came():
    points = ScalarBatches()
    points.add(1.0, 512, ("a", "b"), [(1.0, 2.0), (3.0, 4.0)])
    points.add(2.0, 512, ("c",), [(5.0,)])
    points.add(3.0, 513, ("a", "b"), iter([(6.0, 7.0)]))
    together, alone = points
    assert (together.tags, together.moments, together.steps) == (("a", "b"), [1.0, 1.0, 3.0], [512, 512, 513])
    assert together.rows == [(1.0, 2.0), (3.0, 4.0), (6.0, 7.0)]
    assert list(alone.encode_each()) == [scalars_event(2.0, 512, {"c": 5.0})]


def test_steps_that_take_more_bytes_are_points_of_another_form():
    points = ScalarBatches()
    for step in (0, 1, 127, 128, 16_384):
        points.add(1.0, step, ("a",), [(1.0,)])
    assert [alike.steps for alike in points] == [[0], [1, 127], [128], [16_384]]


def test_bytes_that_differ_are_those_of_each_event():
    points = ScalarBatches()
    for step in (128, 300, 16_383):
        points.add(0.25 * step, step, ("a", "b"), [(0.1 * step, 1e300)])
    (alike,) = points
    observed = alike.variable_bytes().tolist()
    assert observed == [[event[location] for location in alike.layout.positions] for event in alike.encode_each()]


def test_no_episode_makes_no_point():
    points = ScalarBatches()
    points.add(1.0, 512, ("a",), [])
    assert [alike.rows for alike in points] == [[]]


STEPS = [0, 1, 127, 128, 16_383, 16_384, 10**9, 2**40]


def test_the_version_event():
    assert version_event(12.5) == Event(wall_time=12.5, file_version="brain.Event:2").SerializeToString()


@pytest.mark.parametrize("step", STEPS)
def test_scalar_events(step):
    values = {"charts/SPS": 1234.5, "losses/é": -0.25, "t" * 200: 3, "inf": float("inf"), "nan": float("nan")}
    entries = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
    expected = Event(wall_time=7.0, step=step, summary=Summary(value=entries)).SerializeToString()
    assert scalars_event(7.0, step, values) == expected


@pytest.mark.parametrize("value", [1e300, -1e300])
def test_a_number_too_large_for_32_bits_is_shown_as_infinite(value):
    event = Event.FromString(scalars_event(0.0, 1, {"x": value}))
    assert event.summary.value[0].simple_value == value * 1e300


@pytest.mark.parametrize("step", STEPS)
def test_the_session_start_event(step):
    expected = Event(wall_time=7.0, step=step, session_log=SessionLog(status=SessionLog.START))
    assert session_start_event(7.0, step) == expected.SerializeToString()


@pytest.mark.parametrize("text", ["short", "ä|b\n" * 1000])
def test_the_text_event(text):
    value = Summary.Value(
        tag="a/text_summary",
        metadata=SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text")),
        tensor=TensorProto(dtype=DT_STRING, string_val=[text.encode()]),
    )
    expected = Event(wall_time=7.0, summary=Summary(value=[value])).SerializeToString()
    assert Event.FromString(text_event(7.0, 0, "a/text_summary", text)) == Event.FromString(expected)


@pytest.mark.parametrize("step", STEPS)
def test_a_form_reports_where_events_of_the_same_scalars_differ(step):
    tags = ("charts/SPS", "losses/é", "t" * 200)
    layout = layout_of(tags, step_bytes_of(step))
    event = scalars_event(1000.5, step, dict.fromkeys(tags, -2.5))
    assert len(event) == len(layout.common)
    assert struct.unpack_from("<d", event, layout.moment.start) == (1000.5,)
    assert [struct.unpack_from("<f", event, scalar.start) for scalar in layout.scalars] == [(-2.5,)] * 3
    everywhere_else = set(range(len(event))) - set(layout.positions)
    assert [event[location] for location in everywhere_else] == [
        layout.common[location] for location in everywhere_else
    ]
    assert len(layout.positions) == 8 + step_bytes_of(step) + 3 * 4
