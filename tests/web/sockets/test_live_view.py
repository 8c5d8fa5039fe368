"""What viewers say, and how several jobs of one socket end together. The sockets' own tests play it through."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from palaestra.core.errors import PalaestraError, UsageError
from palaestra.core.run import RunState
from palaestra.evaluation.summary import append_batch
from palaestra.rendering.frame_buffer import VARIABLE, frame_buffer_path
from palaestra.rendering.hub import Hub, Status, TooManyViewers
from palaestra.rendering.viewer import Viewer, ViewerRequest
from palaestra.runs.processes import is_alive, process_started_at
from palaestra.runs.status import read_record, with_state, write_record
from palaestra.web.sockets.live_view import (
    MAX_REASON_BYTES,
    SERVICE,
    FrameService,
    ViewerMessage,
    close_with,
    frame_service,
    frames_lifespan,
    parse_message,
    run_until_first,
)


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
def test_invalid_messages_are_refused(text):
    with pytest.raises(PalaestraError):
        parse_message(ViewerMessage, text).request(ViewerRequest())


def test_an_error_names_the_invalid_field():
    with pytest.raises(PalaestraError, match="Invalid value for quality: .*less than or equal to 100"):
        parse_message(ViewerMessage, '{"quality": 101}')


def test_missing_fields_keep_their_values():
    wish = ViewerMessage(fps=5, slots=[1, 2]).request(ViewerRequest())
    assert (wish.frames_per_second, wish.slots) == (5, frozenset({1, 2}))
    later = ViewerMessage(quality=90).request(wish)
    assert (later.frames_per_second, later.slots, later.quality) == (5, frozenset({1, 2}), 90)
    assert ViewerMessage.model_validate({"slots": None}).request(later).slots is None


def test_the_first_finished_job_ends_the_others_and_its_error_is_raised():
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
        asyncio.run(run_until_first(waits(), fails(), waits()))
    assert ended == ["waits", "waits"]


def test_a_job_that_misses_its_cancellation_is_cancelled_again():
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
        asyncio.run(asyncio.wait_for(run_until_first(hard_of_hearing(), fails()), 30))
    assert missed == ["once"]


def test_a_long_reason_fits_into_the_close_frame():
    closed = []

    class Socket:
        async def close(self, code, reason):
            closed.append((code, reason))

    asyncio.run(close_with(Socket(), 1008, UsageError("ä" * 200)))
    code, reason = closed[0]
    assert code == 1008
    assert len(reason.encode()) <= MAX_REASON_BYTES
    assert set(reason) == {"ä"}


@pytest.fixture
def service(daemon, tmp_path, monkeypatch):
    (tmp_path / "lanes").mkdir()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "lanes"))
    hub = Hub(is_alive, max_viewers=2)
    yield FrameService(daemon, hub)
    hub.close()


def test_a_viewer_watches_the_training_unless_the_run_has_another_buffer(service, make_run):
    directory = make_run("first")
    assert service.subscribe(directory.id, "first", None, Viewer()).role == "train"
    frame_buffer_path(directory.id, "eval").write_bytes(b"")
    assert service.subscribe(directory.id, "first", None, Viewer()).role == "eval"
    with pytest.raises(TooManyViewers):
        service.subscribe(directory.id, "first", None, Viewer())


@pytest.mark.parametrize("role", ["colour", "train/../x", "evaluation", ""])
def test_an_unknown_role_is_refused(service, make_run, role):
    directory = make_run("first")
    with pytest.raises(UsageError):
        service.subscribe(directory.id, "first", role or "x", Viewer())
    assert service.hub.viewer_count == 0


def test_a_viewer_without_a_fixed_role_follows_the_frame_buffer(service, make_run):
    directory = make_run("first")
    free = service.subscribe(directory.id, "first", None, Viewer())
    fixed = service.subscribe(directory.id, "first", "train", Viewer())
    frame_buffer_path(directory.id, "eval").write_bytes(b"")
    for subscription in (free, fixed):
        service.switch_buffer(subscription)
    assert (free.role, fixed.role) == ("eval", "train")
    for subscription in (free, fixed):
        service.unsubscribe(subscription)
    assert service.hub.viewer_count == 0


def test_the_hud_of_an_evaluation_shows_its_last_batch(service, make_run):
    directory = make_run("first")
    append_batch(directory, {"episodes": 50, "avg": 112.34, "min": 90.1, "max": 142.6})
    subscription = service.subscribe(directory.id, "first", "eval", Viewer())
    hud = asyncio.run(service.hud(subscription))
    assert hud["evaluation"] == "eval batch 1 | episodes=50 avg=112.3 min=90.1 max=142.6"
    directory.eval_summary_file.write_text("{")
    assert asyncio.run(service.hud(subscription))["evaluation"].startswith("eval | ")


def test_the_hud_of_an_evaluation_run_shows_only_its_own_batches(service, make_run):
    evaluated, evaluation = make_run("first"), make_run("second", kind="evaluate")
    append_batch(evaluated, {"episodes": 50, "avg": 112.34, "min": 90.1, "max": 142.6})
    subscription = service.subscribe(evaluated.id, "first", "eval", Viewer(), evaluation_id=evaluation.id)
    assert asyncio.run(service.hud(subscription))["evaluation"] == "eval | no batch is complete yet"
    append_batch(evaluation, {"episodes": 2, "avg": 9.0, "min": 8.0, "max": 10.0})
    assert asyncio.run(service.hud(subscription))["evaluation"] == "eval batch 1 | episodes=2 avg=9.0 min=8.0 max=10.0"


def test_a_batch_older_than_the_watched_process_is_not_shown(service, make_run):
    directory, now = make_run("first"), time.time()
    append_batch(directory, {"episodes": 50, "avg": 112.34, "min": 90.1, "max": 142.6, "at": now - 1e6})
    subscription = service.subscribe(directory.id, "first", "eval", Viewer())
    subscription.watch.status = Status("connected", owner_started_at=process_started_at(os.getpid()))
    assert asyncio.run(service.hud(subscription))["evaluation"] == "eval | no batch is complete yet"
    append_batch(directory, {"episodes": 2, "avg": 9.0, "min": 8.0, "max": 10.0, "at": now})
    assert asyncio.run(service.hud(subscription))["evaluation"].startswith("eval batch 2 |")


def test_the_frame_service_lives_as_long_as_the_lifespan(context, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))

    async def through():
        async with frames_lifespan(context):
            return frame_service(context).hub.fileno()

    assert asyncio.run(through()) >= 0
    assert context.services[SERVICE].hub.viewer_count == 0


def test_an_evaluation_is_shown_in_the_frame_buffer_of_the_evaluated_run(service, make_run, daemon):
    evaluations = make_run("first")
    evaluation = make_run("second", kind="evaluate", config={"target": f"{evaluations.id}:3"})
    stray = make_run("third", kind="evaluate", config={"target": "/elsewhere/model_0001.yaml"})
    assert service.resolve_run(daemon.get(evaluation.id), None) == (evaluations.id, "first", "eval")
    assert service.resolve_run(daemon.get(evaluation.id), "train") == (evaluations.id, "first", "train")
    assert service.resolve_run(daemon.get(evaluations.id), None) == (evaluations.id, "first", None)
    assert service.resolve_run(daemon.get(stray.id), None) == (stray.id, "third", None)
    write_record(evaluation, with_state(read_record(evaluation), RunState.CANCELLED))
    daemon._supervisor.scan_all()
    assert service.resolve_run(daemon.get(evaluation.id), None) == (evaluation.id, "second", None)


def test_the_hud_lists_all_roles_of_the_run(service, make_run):
    directory = make_run("first")
    for role in ("eval", "train1", "train"):
        frame_buffer_path(directory.id, role).write_bytes(b"")
    subscription = service.subscribe(directory.id, "first", None, Viewer())
    assert asyncio.run(service.hud(subscription))["roles"] == ["train", "train1", "eval"]
