from __future__ import annotations

from palaestra.evaluation.summary import append_batch
from palaestra.runs.files import write_json


def test_evaluations_are_listed_oldest_first_with_their_values(client, make_run):
    directory = make_run("first")
    for epoch in (10, 20):
        append_batch(directory, {"epoch": epoch, "episodes": 5, "avg": 1.5, "file": f"evaluations/{epoch}-1.json"})
    batches = client.get("/api/runs/first/evaluations").json()["batches"]
    assert [(batch["batch"], batch["epoch"]) for batch in batches] == [(1, 10), (2, 20)]


def test_the_episodes_of_an_evaluation_are_returned(client, make_run):
    directory = make_run("first")
    write_json(
        directory.evaluations / "10-1.json", {"schema_version": 1, "rows": [{"seed": 1, "total_reward": float("nan")}]}
    )
    assert [file["name"] for file in client.get("/api/runs/first/evaluations").json()["files"]] == ["10-1.json"]
    reply = client.get("/api/runs/first/evaluations/10-1.json").json()
    assert reply["rows"] == [{"seed": 1, "total_reward": "NaN"}]


def test_a_run_without_evaluations_has_an_empty_list(client, make_run):
    make_run("first")
    assert client.get("/api/runs/first/evaluations").json() == {"batches": [], "files": []}
    assert client.get("/api/runs/first/evaluations/10-1.json").status_code == 404


def test_damaged_files_are_409_with_their_name(client, make_run):
    directory = make_run("first")
    (directory.evaluations / "torn.json").write_text('{"rows": [')
    (directory.evaluations / "list.json").write_text("[]")
    (directory.evaluations / "deep.json").write_text("[" * 100_000)
    for name in ("torn.json", "list.json", "deep.json"):
        reply = client.get(f"/api/runs/first/evaluations/{name}")
        assert reply.status_code == 409
        assert name in reply.json()["error"]["message"]
    directory.eval_summary_file.write_text("{")
    assert client.get("/api/runs/first/evaluations").status_code == 409
