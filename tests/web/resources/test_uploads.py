from __future__ import annotations

import errno
import io
import os
import pickle
import zipfile
from dataclasses import replace

import pytest

from palaestra.checkpoints import sidecar
from palaestra.checkpoints.durable import verify
from palaestra.checkpoints.files import model_name, sidecar_name, trainer_state_name
from palaestra.core.errors import DamagedFile, RefusedFile
from palaestra.core.run import RunState
from palaestra.daemon.settings import DaemonDirectory
from palaestra.runs.documents import read_request
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore
from palaestra.web.resources import uploads
from palaestra.web.resources.uploads import VerifiedUpload, create_uploaded_run, unpack, unpack_concatenated

MOST = 1 << 20


class Payload:
    def __reduce__(self):
        return (print, ("executed",))


@pytest.fixture
def made(make_run, save_checkpoint):
    """(checkpoint, bytes of the sidecar, bytes of the weights)"""
    directory = make_run("first")
    checkpoint = save_checkpoint(directory, 10)
    read = [(directory.checkpoints / name).read_bytes() for name in (sidecar_name(10), model_name(10))]
    return checkpoint, *read


def packed(**files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    stream.seek(0)
    return stream


def changed(made, **changes):
    checkpoint, _, weights = made
    return packed(
        **{sidecar_name(10): sidecar.encode(replace(checkpoint, path=None, **changes)), model_name(10): weights}
    )


def test_a_zip_of_both_files_is_accepted(made, tmp_path):
    checkpoint, text, weights = made
    upload = unpack(packed(**{sidecar_name(10): text, model_name(10): weights}), tmp_path, MOST)
    assert upload.checkpoint == replace(checkpoint, path=None)
    assert upload.weights.read_bytes() == weights
    assert upload.weights.stat().st_mode & 0o777 == 0o600


def test_a_sidecar_followed_by_its_weights_is_accepted(made, tmp_path):
    _, text, weights = made
    upload = unpack_concatenated(io.BytesIO(text + weights), tmp_path)
    assert upload.weights.read_bytes() == weights
    assert upload.checkpoint.epoch == 10


@pytest.mark.parametrize("change", ["cut", "longer", "flip", "sidecar", "swap"])
def test_weights_that_do_not_match_the_sidecar_are_refused(made, tmp_path, change):
    _, text, weights = made
    if change == "cut":
        weights = weights[:-1]
    elif change == "longer":
        weights += b"\0"
    elif change == "flip":
        weights = weights[:-1] + bytes([weights[-1] ^ 1])
    elif change == "sidecar":
        text = text.replace(b"epoch: 10", b"epoch: 11")
    files = {sidecar_name(20 if change == "swap" else 10): text, model_name(20 if change == "swap" else 10): weights}
    with pytest.raises(DamagedFile):
        unpack(packed(**files), tmp_path, MOST)
    if change != "swap":
        (tmp_path / model_name(10)).unlink(missing_ok=True)
        with pytest.raises(DamagedFile):
            unpack_concatenated(io.BytesIO(text + weights), tmp_path)


def test_pickled_weights_are_refused_even_with_a_correct_checksum(made, tmp_path):
    checkpoint, _, _ = made
    harm = pickle.dumps([Payload()] * 3)
    described = replace(checkpoint, path=None, files={model_name(10): sidecar.digest(harm)})
    for stream, opened in (
        (
            packed(**{sidecar_name(10): sidecar.encode(described), model_name(10): harm}),
            lambda s: unpack(s, tmp_path, MOST),
        ),
        (io.BytesIO(sidecar.encode(described) + harm), lambda s: unpack_concatenated(s, tmp_path)),
    ):
        (tmp_path / model_name(10)).unlink(missing_ok=True)
        with pytest.raises(RefusedFile, match="pickle"):
            opened(stream)


def test_a_pickle_and_a_torch_archive_are_refused_as_pickles(tmp_path):
    harm = pickle.dumps([Payload()] * 3)
    with pytest.raises(RefusedFile, match="Python pickle"):
        unpack(io.BytesIO(harm), tmp_path, MOST)
    with pytest.raises(RefusedFile):
        unpack(packed(**{"archive/data.pkl": harm}), tmp_path, MOST)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("readme.txt", "does not belong"),
        (trainer_state_name(10), "does not belong"),
        (sidecar_name(11), "2 checkpoints"),
        (model_name(11), "does not belong"),
    ],
)
def test_other_files_in_the_archive_are_refused_by_name(made, tmp_path, extra, words):
    _, text, weights = made
    with pytest.raises(RefusedFile, match=words):
        unpack(packed(**{sidecar_name(10): text, model_name(10): weights, extra: b"text"}), tmp_path, MOST)


def test_a_pickle_beside_the_checkpoint_is_refused_as_a_pickle(made, tmp_path):
    _, text, weights = made
    files = {sidecar_name(10): text, model_name(10): weights, "extra.pt": pickle.dumps([Payload()] * 3)}
    with pytest.raises(RefusedFile, match="Python pickle"):
        unpack(packed(**files), tmp_path, MOST)


@pytest.mark.parametrize(
    "changes",
    [
        {"policy": {"module": "evil.package:Policy"}},
        {"env": {"id": "evil.package:Env-v0"}},
    ],
)
def test_a_checkpoint_that_would_import_a_module_is_refused(made, tmp_path, changes):
    with pytest.raises(RefusedFile, match="run its code"):
        unpack(changed(made, **changes), tmp_path, MOST)


@pytest.mark.parametrize("changes", [{"policy": {"colour": 1}}, {"env": {"id": 3}}, {"interface": {}}])
def test_a_checkpoint_with_an_invalid_policy_or_environment_is_refused(made, tmp_path, changes):
    with pytest.raises(DamagedFile, match="contains no valid policy"):
        unpack(changed(made, **changes), tmp_path, MOST)


@pytest.mark.parametrize("missing", [sidecar_name(10), model_name(10)])
def test_an_incomplete_checkpoint_is_refused(made, tmp_path, missing):
    _, text, weights = made
    files = {sidecar_name(10): text, model_name(10): weights}
    del files[missing]
    with pytest.raises(RefusedFile):
        unpack(packed(**files), tmp_path, MOST)
    with pytest.raises(DamagedFile):
        unpack_concatenated(io.BytesIO(b"".join(files.values())), tmp_path)


ZIP = {"content-type": "application/zip"}


@pytest.fixture
def parts(make_run, save_checkpoint):
    directory = make_run("origin")
    save_checkpoint(directory, 10)
    return [(directory.checkpoints / name).read_bytes() for name in (sidecar_name(10), model_name(10))]


@pytest.fixture
def archive(parts):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as packed:
        for name, content in zip((sidecar_name(10), model_name(10)), parts, strict=True):
            packed.writestr(name, content)
    return stream.getvalue()


def left_behind(context):
    location = DaemonDirectory(context.daemon.root).path / "uploads"
    return list(location.iterdir()) if location.exists() else []


def test_an_upload_can_be_inspected_listed_and_downloaded(client, context, archive, parts):
    reply = client.post("/api/checkpoints?name=friend", content=archive, headers=ZIP)
    assert reply.status_code == 201, reply.text
    target = reply.json()["target"]
    assert reply.json()["checkpoint"]["epoch"] == 10
    assert client.get("/api/checkpoints/inspect", params={"target": target}).json()["env"]["id"] == "CartPole-v1"
    listed = client.get("/api/runs/friend/checkpoints").json()["checkpoints"]
    assert [one["epoch"] for one in listed] == [10]
    again = client.get("/api/runs/friend/checkpoints/10/download").content
    with zipfile.ZipFile(io.BytesIO(again)) as packed:
        assert packed.read(model_name(10)) == parts[1]
    assert left_behind(context) == []


def test_a_download_can_be_uploaded(client, archive):
    first = client.post("/api/checkpoints", content=archive, headers=ZIP).json()["run"]
    again = client.get(f"/api/runs/{first}/checkpoints/10/download").content
    reply = client.post("/api/checkpoints", content=again, headers=ZIP)
    assert reply.status_code == 201
    assert reply.json()["run"] != first


def test_a_page_can_send_sidecar_and_weights_concatenated(client, context, parts):
    headers = {"content-type": "application/octet-stream"}
    reply = client.post("/api/checkpoints", content=b"".join(parts), headers=headers)
    assert reply.status_code == 201
    verify(context.daemon.directory(reply.json()["run"]).checkpoints, 10)


def test_a_refused_upload_leaves_no_run_and_no_file(client, context, archive):
    before = len(context.daemon.runs())
    for content in (b"", b"no zip", archive[:-30], archive.replace(b"CartPole", b"CartPale"), b"\x80\x04]\x94."):
        reply = client.post("/api/checkpoints", content=content, headers=ZIP)
        assert reply.status_code == 409, reply.text
        assert "refused" in reply.json()["error"]["message"]
    assert len(list(context.daemon.root.glob("01*"))) == before
    assert left_behind(context) == []


def test_a_too_large_upload_is_413_and_leaves_nothing(client, context, archive, monkeypatch):
    monkeypatch.setattr(uploads, "MAX_BYTES", 100)
    assert client.post("/api/checkpoints", content=archive, headers=ZIP).status_code == 413

    def without_length():
        yield archive

    assert client.post("/api/checkpoints", content=without_length(), headers=ZIP).status_code == 413
    assert left_behind(context) == []


def test_a_full_disk_is_507_with_the_reason(client, context, archive, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(uploads, "create_uploaded_run", refuse)
    reply = client.post("/api/checkpoints", content=archive, headers=ZIP)
    assert reply.status_code == 507
    assert "No space left" in reply.json()["error"]["message"]
    assert left_behind(context) == []


def test_concurrent_uploads_are_limited(client, context, archive):
    context.services[uploads.SERVICE] = uploads.UploadCount(active=uploads.MAX_UPLOADS)
    assert client.post("/api/checkpoints", content=archive, headers=ZIP).status_code == 503
    context.services[uploads.SERVICE].active = 0
    assert client.post("/api/checkpoints", content=archive, headers=ZIP).status_code == 201
    assert context.services[uploads.SERVICE].active == 0


def test_a_form_of_a_page_cannot_upload(client, archive):
    for media in ("multipart/form-data; boundary=x", "text/plain", "application/x-www-form-urlencoded"):
        assert client.post("/api/checkpoints", content=archive, headers={"content-type": media}).status_code == 415


@pytest.mark.parametrize("name", ["a/b", "..", "x" * 101, "origin"])
def test_an_invalid_name_is_refused(client, archive, name):
    reply = client.post("/api/checkpoints", params={"name": name}, content=archive, headers=ZIP)
    assert reply.status_code == 422, reply.text


def test_partial_uploads_of_a_killed_daemon_are_removed(client, context, archive):
    left = DaemonDirectory(context.daemon.root).path / "uploads" / "1-abc"
    left.mkdir(parents=True)
    (left / "half").write_bytes(b"x")
    client.post("/api/checkpoints", content=archive, headers=ZIP)
    assert left_behind(context) == []


@pytest.fixture
def upload(make_run, save_checkpoint, tmp_path):
    directory = make_run("origin")
    checkpoint = save_checkpoint(directory, 10)
    (directory.checkpoints / model_name(10)).rename(tmp_path / "weights")
    return VerifiedUpload(checkpoint, tmp_path / "weights")


def test_an_upload_is_a_finished_run_with_its_origin(upload, tmp_path):
    store = RunStore(tmp_path / "elsewhere")
    directory = create_uploaded_run(store, upload, "from-a-friend")
    checkpoint, _ = verify(directory.checkpoints, 10)
    assert checkpoint.score == 1.5
    record = read_record(directory)
    assert (record.state, record.name, record.epoch, record.exit_code) == (RunState.FINISHED, "from-a-friend", 10, 0)
    assert record.pid is None
    origin = read_request(directory).config["origin"]
    assert origin == {"run": upload.checkpoint.run, "run_name": "first", "epoch": 10}


def test_a_failed_write_leaves_no_run(upload, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(uploads, "rewrite_sidecar", refuse)
    store = RunStore(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="No space"):
        create_uploaded_run(store, upload, "")
    assert store.list() == []
