"""What viewers say, and how several jobs of one socket end together. The sockets' own tests play it through."""

from __future__ import annotations

import asyncio

import pytest

from palaestra.core.errors import PalaestraError, UsageError
from palaestra.rendering.viewer import ViewerRequest
from palaestra.web.live_socket import LONGEST_REASON, Said, close_with, together, understood_as


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"fps": 0}',
        '{"fps": 1e9}',
        '{"fps": "15"}',
        '{"slots": [-1]}',
        '{"ack": -1}',
        '{"colour": 1}',
        '{"slots": [1e9]}',
        "nul",
    ],
)
def test_what_cannot_be_is_refused(text):
    with pytest.raises(PalaestraError):
        understood_as(Said, text).request(ViewerRequest())


def test_a_refusal_names_what_is_wrong():
    with pytest.raises(PalaestraError, match="'quality' cannot be: .*less than or equal to 100"):
        understood_as(Said, '{"quality": 101}')


def test_what_is_not_said_stays_as_it_was():
    wish = Said(fps=5, slots=[1, 2]).request(ViewerRequest())
    assert (wish.frames_per_second, wish.slots) == (5, frozenset({1, 2}))
    later = Said(quality=90).request(wish)
    assert (later.frames_per_second, later.slots, later.quality) == (5, frozenset({1, 2}), 90)
    assert Said.model_validate({"slots": None}).request(later).slots is None


def test_jobs_end_with_the_first_of_them_and_its_error_is_told():
    ended = []

    async def waits():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waits")

    async def fails():
        await asyncio.sleep(0)
        raise UsageError("no")

    with pytest.raises(UsageError):
        asyncio.run(together(waits(), fails(), waits()))
    assert ended == ["waits", "waits"]


def test_a_job_that_misses_its_cancellation_is_told_again():
    missed = []

    async def hard_of_hearing():
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if missed:
                    raise
                missed.append("once")

    async def fails():
        await asyncio.sleep(0)
        raise UsageError("no")

    with pytest.raises(UsageError):
        asyncio.run(asyncio.wait_for(together(hard_of_hearing(), fails()), 30))
    assert missed == ["once"]


def test_a_long_reason_fits_into_the_closing_frame():
    closed = []

    class Socket:
        async def close(self, code, reason):
            closed.append((code, reason))

    asyncio.run(close_with(Socket(), 1008, UsageError("ä" * 200)))
    code, reason = closed[0]
    assert code == 1008
    assert len(reason.encode()) <= LONGEST_REASON
    assert set(reason) == {"ä"}
