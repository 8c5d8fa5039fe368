from __future__ import annotations

from palaestra.runs.files import append_line
from palaestra.runs.journal import Journal


def test_entries_are_counted_and_taken_up_where_the_last_answer_ended(client, make_run):
    directory = make_run("first")
    journal = Journal(directory)
    for epoch in range(3):
        journal.record("checkpoint.scored", epoch=epoch, score=1.0, episodes=2)
    first = client.get("/api/runs/first/journal?limit=2").json()
    assert [entry["event"] for entry in first["entries"]] == ["run.created", "checkpoint.scored"]
    assert [entry["number"] for entry in first["entries"]] == [1, 2]
    rest = client.get(f"/api/runs/first/journal?after={first['next']}").json()
    assert [entry["data"]["epoch"] for entry in rest["entries"]] == [1, 2]
    assert rest["next"] == rest["total"] == 4
    assert client.get(f"/api/runs/first/journal?after={rest['next']}").json()["entries"] == []


def test_a_torn_line_is_passed_over_and_infinity_is_text(client, make_run):
    directory = make_run("first")
    append_line(directory.journal_file, '{"at": 1, "event": "torn')
    Journal(directory).record("checkpoint.scored", epoch=1, score=float("inf"), episodes=2)
    entries = client.get("/api/runs/first/journal").json()["entries"]
    assert entries[-1]["data"]["score"] == "Infinity"
    assert len(entries) == 2


def test_beyond_the_end_there_is_nothing(client, make_run):
    make_run("first")
    assert client.get("/api/runs/first/journal?after=1000").json() == {"entries": [], "next": 1, "total": 1}
    assert client.get("/api/runs/first/journal?after=-1").status_code == 422
