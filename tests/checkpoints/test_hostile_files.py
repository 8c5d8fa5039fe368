"""A corpus of files that mean harm: nothing in them is executed, and looking at them costs little."""

import hashlib
import importlib.util
import resource
import sys
import time
from pathlib import Path

import pytest

from palaestra.checkpoints import sidecar
from palaestra.checkpoints.convert import inspect_file
from palaestra.checkpoints.durable import read_sidecar
from palaestra.core.errors import DamagedFile, RefusedFile

spec = importlib.util.spec_from_file_location("hostile_files", Path(__file__).with_name("hostile_files.py"))
hostile_files = importlib.util.module_from_spec(spec)
sys.modules["hostile_files"] = hostile_files  # pickling the payloads looks their class up by name
spec.loader.exec_module(hostile_files)

MESSAGE = "refused: file is a Python pickle (could run code). Convert it in a trusted place with 'palaestra convert'"
NEEDS_A_CHILD = (".pt", ".zip")  # such a file costs a process with torch, so `make test` takes a few of them
SAMPLE = {"reduce.pt", "whole_module.pt", "bomb.pt"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    return folder, hostile_files.build(folder, folder / "canary")


def look_at_all(folder, fates, figure):
    """Every file meets its fate; the dearest one, in CPU seconds beyond starting a process and importing torch."""
    children, dearest = resource.RUSAGE_CHILDREN, 0.0
    for name, fate in fates.items():
        before = resource.getrusage(children).ru_utime + time.process_time()
        if fate == "read":
            assert inspect_file(folder / name).tensors
        else:
            with pytest.raises(DamagedFile) as caught:
                inspect_file(folder / name)
            if fate == "refused":
                assert isinstance(caught.value, RefusedFile), name
                assert str(caught.value) == MESSAGE
            elif fate == "damaged":
                assert not isinstance(caught.value, RefusedFile), (name, caught.value)
        spent = resource.getrusage(children).ru_utime + time.process_time() - before
        dearest = max(dearest, spent)
        assert spent < 10, (name, spent)
    assert not (folder / "canary").exists()
    assert not list(folder.glob("**/slipped"))
    figure("hostile files, nothing run", len(fates))
    figure("dearest file, CPU s with its process", dearest)


@pytest.mark.fault("C12", "C14")
def test_files_that_need_no_child_are_refused_at_once(corpus, figure):
    folder, fates = corpus
    chosen = {name: fate for name, fate in fates.items() if not name.endswith(NEEDS_A_CHILD)}
    assert len(chosen) >= 18
    started = time.process_time()
    look_at_all(folder, chosen, figure)
    assert time.process_time() - started < 2


@pytest.mark.fault("C12", "C13", "C14")
@pytest.mark.slow
def test_a_sample_of_archives_is_refused_in_a_child(corpus, figure):
    folder, fates = corpus
    look_at_all(folder, {name: fates[name] for name in SAMPLE}, figure)


@pytest.mark.fault("C12", "C13", "C14")
@pytest.mark.chaos
def test_the_whole_corpus_is_refused(corpus, figure):
    folder, fates = corpus
    assert len(fates) >= 40
    look_at_all(folder, fates, figure)


def sealed(body):
    return body + b"# sha256:" + hashlib.sha256(body).hexdigest().encode() + b"\n"


LAUGHS = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (letter + 1, letter + 1, b",".join([b"*%c" % letter] * 9)) for letter in range(97, 105)
)


@pytest.mark.fault("C11")
@pytest.mark.parametrize(
    "body",
    [
        b"a: !!python/object/apply:os.system ['touch canary']\n",
        b"a: !!python/name:os.system\n",
        LAUGHS,
        b"[" * 20_000 + b"]" * 20_000 + b"\n",
        b"a: 1\na: 2\n",
        b"- 1\n",
        b"",
        b"\x00\xff\n",
        b"{" * 5_000 + b"\n",
    ],
    ids=["apply", "name", "laughs", "deep", "double", "list", "empty", "binary", "braces"],
)
def test_a_hostile_sidecar_with_a_right_checksum_is_refused_in_no_time(tmp_path, monkeypatch, body):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model_0001.yaml").write_bytes(sealed(body))
    started = time.process_time()
    with pytest.raises(DamagedFile, match=r"model_0001\.yaml"):
        read_sidecar(tmp_path, 1)
    assert time.process_time() - started < 0.5
    assert not (tmp_path / "canary").exists()


@pytest.mark.fault("C11")
def test_a_sidecar_of_50_megabytes_is_not_even_read(tmp_path):
    (tmp_path / "model_0001.yaml").write_bytes(b"# " + bytes(50 << 20))
    started = time.process_time()
    with pytest.raises(DamagedFile, match="bytes"):
        read_sidecar(tmp_path, 1)
    assert time.process_time() - started < 0.1


@pytest.mark.fault("C11")
@pytest.mark.parametrize("entry", [b"1,", b"a: 1\n", b"xxxxxxxxxxxxx,"])
def test_the_largest_sidecar_that_is_read_costs_two_seconds_at_most(entry):
    count = min(sidecar.MAX_MARKS // sum(map(entry.count, (b",", b":", b"\n"))), sidecar.MAX_BYTES // len(entry)) - 20
    body = (
        b"a: [" + entry * count + b"1]\n" if entry.endswith(b",") else b"".join(b"k%d: 1\n" % i for i in range(count))
    )
    started = time.process_time()
    with pytest.raises(DamagedFile, match="format None"):
        sidecar.decode(sealed(body), "x")
    assert time.process_time() - started < 2


@pytest.mark.fault("C11")
def test_a_sidecar_of_very_many_entries_is_refused_before_it_is_parsed():
    started = time.process_time()
    with pytest.raises(DamagedFile, match="entries"):
        sidecar.decode(sealed(b"a: [" + b"1," * 60_000 + b"1]\n"), "x")
    assert time.process_time() - started < 0.1
