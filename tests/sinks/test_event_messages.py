"""Every message, byte for byte, against tensorboard's own protocol buffers."""

from __future__ import annotations

import pytest
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_STRING

from palaestra.sinks.event_messages import (
    alike_events,
    scalars_event,
    session_start_event,
    spelled_out,
    text_event,
    version_event,
)

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


def test_events_that_are_alike_are_the_same_bytes_as_each_by_itself():
    returns, lengths = [0.1, -2.5, 1e300], [1, 20, 500]
    common, places = alike_events(1000.5, 70_000, ("charts/episodic_return", "charts/episodic_length"))
    assert spelled_out(common, places, (returns, lengths)) == [
        scalars_event(1000.5, 70_000, {"charts/episodic_return": one, "charts/episodic_length": other})
        for one, other in zip(returns, lengths, strict=True)
    ]
    assert spelled_out(common, places, ([], [])) == []
