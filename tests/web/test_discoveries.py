from __future__ import annotations

import pytest

from palaestra.contracts.errors import NotFound, UsageError
from palaestra.web import discoveries


class Shelf:
    """Stands for an app's catalogue."""

    def listing(self, runs_root, wanted):
        if wanted == "3x3":
            raise UsageError("'3x3' is not a format.", "Try 3x3x3.")
        return {"known_as_of": "x", "known": [], "discoveries": [], "damaged": [str(runs_root), wanted]}

    def entry(self, runs_root, name):
        if name != "there":
            raise NotFound(f"No discovery is called '{name}'.")
        return {"id": name, "formulas": ["a"], "straight_line": [], "code": "", "machine": {}, "benchmarks": []}


@pytest.fixture
def shelf(monkeypatch):
    monkeypatch.setattr(discoveries.plugins, "load", lambda group, name: Shelf())


def test_the_list_is_the_catalogues(client, shelf):
    answer = client.get("/api/discoveries", params={"format": "2x2x2"})
    assert answer.status_code == 200
    assert answer.json()["damaged"][1] == "2x2x2"


def test_what_is_wrong_and_what_is_not_there_are_told(client, shelf):
    assert client.get("/api/discoveries", params={"format": "3x3"}).status_code == 422
    assert client.get("/api/discoveries/nothing").status_code == 404
    assert client.get("/api/discoveries/there").json()["formulas"] == ["a"]


def test_the_true_catalogue_answers_where_nothing_was_found(client):
    data = client.get("/api/discoveries").json()
    assert data["discoveries"] == []
    assert {"format": "2x2x2", "naive": 8}.items() <= data["known"][0].items()
