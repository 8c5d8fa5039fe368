from __future__ import annotations

from pathlib import Path

import pytest

from palaestra.core.errors import DamagedFile
from palaestra.runs.schema import stamped, unstamped

PATH = Path("x/status.json")


def test_the_version_stands_first_and_is_taken_off_again():
    assert list(stamped({"a": 1}, 2).items()) == [("schema_version", 2), ("a", 1)]
    assert unstamped(stamped({"a": 1}, 2), 2, PATH) == {"a": 1}


def test_an_older_version_is_read():
    assert unstamped({"schema_version": 1, "a": 1}, 2, PATH) == {"a": 1}


def test_a_newer_version_is_refused_with_both_numbers():
    with pytest.raises(DamagedFile, match=r"status\.json has schema_version 3; this Palaestra reads 1 to 2"):
        unstamped({"schema_version": 3}, 2, PATH)


@pytest.mark.parametrize(
    "data", [{}, {"schema_version": "1"}, {"schema_version": 0}, {"schema_version": True}, [], None]
)
def test_what_has_no_version_is_not_ours(data):
    with pytest.raises(DamagedFile, match=r"status\.json"):
        unstamped(data, 1, PATH)
