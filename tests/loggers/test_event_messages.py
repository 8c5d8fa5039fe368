"""Every message, byte for byte, against tensorboard's own protocol buffers."""

from __future__ import annotations

import struct

import pytest
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_STRING

from palaestra.loggers.event_messages import (
    form_of,
    scalars_event,
    session_start_event,
    step_bytes_of,
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


@pytest.mark.parametrize("step", STEPS)
def test_a_form_tells_where_events_of_the_same_scalars_differ(step):
    tags = ("charts/SPS", "losses/é", "t" * 200)
    form = form_of(tags, step_bytes_of(step))
    event = scalars_event(1000.5, step, dict.fromkeys(tags, -2.5))
    assert len(event) == len(form.common)
    assert struct.unpack_from("<d", event, form.moment.start) == (1000.5,)
    assert [struct.unpack_from("<f", event, scalar.start) for scalar in form.scalars] == [(-2.5,)] * 3
    everywhere_else = set(range(len(event))) - set(form.places)
    assert [event[place] for place in everywhere_else] == [form.common[place] for place in everywhere_else]
    assert len(form.places) == 8 + step_bytes_of(step) + 3 * 4
