from __future__ import annotations

import io
import pickle
import zipfile
from dataclasses import replace

import pytest

from palaestra.checkpoints import sidecar
from palaestra.checkpoints.files import model_name, sidecar_name, trainer_state_name
from palaestra.core.errors import DamagedFile, RefusedFile
from palaestra.web.resources.upload_verification import unpack, unpack_concatenated

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
