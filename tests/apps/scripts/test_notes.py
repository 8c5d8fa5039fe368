import hashlib
import json

import pytest

from palaestra.apps.scripts.notes import read_notes
from palaestra.core.errors import DamagedFile

SOURCE = "print('grüß')\n"
NOTES = {
    "script": "made.py",
    "sha256": hashlib.sha256(SOURCE.encode()).hexdigest(),
    "source": SOURCE,
    "args": "{}",
    "classes": "{}",
}


def file_with(notes):
    header = json.dumps({"__metadata__": notes}).encode()
    return len(header).to_bytes(8, "little") + header


def test_notes_come_back_as_they_were_written():
    assert read_notes(file_with(NOTES)) == {**NOTES, "env_id": ""}
    assert read_notes(file_with({**NOTES, "env_id": "CartPole-v1"}))["env_id"] == "CartPole-v1"


def test_a_file_without_them_is_refused_by_what_it_lacks():
    with pytest.raises(DamagedFile, match="does not say its source"):
        read_notes(file_with({key: value for key, value in NOTES.items() if key != "source"}))


def test_a_script_that_was_exchanged_is_refused():
    with pytest.raises(DamagedFile, match="not the one whose hash"):
        read_notes(file_with({**NOTES, "source": "print('other')\n"}))


def test_a_torn_file_is_refused():
    with pytest.raises(DamagedFile):
        read_notes(file_with(NOTES)[:40])
