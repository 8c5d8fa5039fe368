from __future__ import annotations

import asyncio
import io
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.requests import ClientDisconnect, Request

from palaestra.checkpoints import sidecar
from palaestra.checkpoints.durable import rewrite_sidecar
from palaestra.checkpoints.locks import unused
from palaestra.checkpoints.names import model_name, sidecar_name
from palaestra.core.errors import DamagedFile, NotFound
from palaestra.web.checkpoint_archive import CheckpointArchive, without_trainer_state


def a_request(method="GET"):
    return Request({"type": "http", "method": method, "headers": [], "path": "/", "query_string": b""})


async def sent_by(answer, while_sending=lambda: None, breaks=False):
    pieces = []

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        pieces.append(message.get("body", b""))
        while_sending()
        if breaks:
            raise OSError("the caller has gone")

    await answer({"type": "http", "asgi": {"spec_version": "2.4"}}, receive, send)
    return b"".join(pieces)


@pytest.fixture
def directory(make_run, save_checkpoint):
    directory = make_run("first")
    save_checkpoint(directory, 10)
    return directory


def test_the_sidecar_that_is_sent_speaks_of_the_weights_only(directory, save_checkpoint):
    before = save_checkpoint(directory, 20)
    state = {"trainer_state_0020.pt": {"size": 1, "sha256": "0" * 64}}
    described = without_trainer_state(rewrite_sidecar(directory.checkpoints, _with(before, state)))
    assert set(described.files) == {model_name(20)}


def _with(checkpoint, files):
    return replace(checkpoint, files={**checkpoint.files, **files})


def test_the_sidecar_inside_verifies_by_itself(directory):
    content = asyncio.run(sent_by(CheckpointArchive(directory, 10, a_request())))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        inside = sidecar.decode(archive.read(sidecar_name(10)), "inside")
        assert sidecar.digest(archive.read(model_name(10))) == inside.files[model_name(10)]


def test_no_retention_takes_it_while_it_is_sent_and_it_is_free_afterwards(directory):
    seen = []

    def look():
        with unused(directory.checkpoints, 10) as is_free:
            seen.append(is_free)

    asyncio.run(sent_by(CheckpointArchive(directory, 10, a_request()), look))
    assert seen
    assert not any(seen)
    with unused(directory.checkpoints, 10) as is_free:
        assert is_free


def test_a_flipped_bit_is_seen_before_the_first_byte_is_sent(directory):
    path = directory.checkpoints / model_name(10)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedFile, match="sha256 differs"):
        CheckpointArchive(directory, 10, a_request())


def test_nothing_stays_open_when_the_caller_goes_or_it_is_refused(directory):
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(ClientDisconnect):
        asyncio.run(sent_by(CheckpointArchive(directory, 10, a_request()), breaks=True))
    with pytest.raises(NotFound):
        CheckpointArchive(directory, 99, a_request())
    os.truncate(directory.checkpoints / model_name(10), 3)
    with pytest.raises(DamagedFile):
        CheckpointArchive(directory, 10, a_request())
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_asking_for_the_head_sends_nothing(directory):
    assert asyncio.run(sent_by(CheckpointArchive(directory, 10, a_request("HEAD")))) == b""
