from dataclasses import replace

from palaestra.contracts.run import RunState
from palaestra.frames.place import lane_path
from palaestra.web.run_data import RUN_SCHEMA, describe_run, describe_runs


def test_a_run_is_described_with_every_field_of_the_schema(house, daemon, make_run):
    make_run("first", config={"seed": 4, "env": {"id": "CartPole-v1"}})
    described = describe_run(house, daemon.get("first"))
    assert set(described) == set(RUN_SCHEMA["properties"])
    assert (described["seed"], described["env"], described["queue_position"]) == (4, "CartPole-v1", None)


def test_progress_is_a_share_of_the_whole_and_never_more(house, daemon, make_run):
    make_run("first")
    entry = daemon.get("first")

    def progress(step, total):
        record = replace(entry.record, agent_step=step, total_steps=total, state=RunState.RUNNING)
        return describe_run(house, replace(entry, record=record))["progress"]

    assert [progress(5, 10), progress(12, 10), progress(5, 0)] == [0.5, 1.0, None]


def test_a_run_with_a_lane_is_live(house, daemon, make_run, tmp_path, monkeypatch):
    monkeypatch.setenv("PALAESTRA_LANES_DIR", str(tmp_path))
    first, second = make_run("first"), make_run("second")
    lane_path(first.id).touch()
    described = describe_runs(house, [daemon.get(first.id), daemon.get(second.id)])
    assert [run["is_live"] for run in described] == [True, False]
