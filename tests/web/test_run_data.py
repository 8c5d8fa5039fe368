from dataclasses import replace

from palaestra.core.run import RunState
from palaestra.rendering.buffer_paths import frame_buffer_path
from palaestra.web.run_data import Run, describe_run, describe_runs


def test_a_run_is_described_with_every_field_of_the_schema(house, daemon, make_run):
    make_run("first", config={"seed": 4, "env": {"id": "CartPole-v1"}})
    described = describe_run(house, daemon.get("first"))
    assert set(described) == set(Run.__annotations__)
    assert (described["seed"], described["env"], described["queue_position"]) == (4, "CartPole-v1", None)


def test_progress_is_a_share_of_the_whole_and_never_more(house, daemon, make_run):
    make_run("first")
    entry = daemon.get("first")

    def progress(step, total):
        record = replace(entry.record, agent_step=step, total_steps=total, state=RunState.RUNNING)
        return describe_run(house, replace(entry, record=record))["progress"]

    assert [progress(5, 10), progress(12, 10), progress(5, 0)] == [0.5, 1.0, None]


def test_the_progress_of_an_evaluation_is_a_share_of_its_episodes(house, daemon, make_run):
    make_run("first", kind="evaluate")
    entry = daemon.get("first")

    def progress(played, total):
        summary = {"episodes_played": played, "episodes_total": total}
        record = replace(entry.record, agent_step=9000, summary=summary)
        return describe_run(house, replace(entry, record=record))["progress"]

    assert [progress(5, 20), progress(20, 20), progress(5, 0)] == [0.25, 1.0, None]


def test_a_finished_run_is_complete_although_its_script_counts_from_0(house, daemon, make_run):
    make_run("first")
    entry = daemon.get("first")

    def progress(state):
        record = replace(entry.record, agent_step=99, total_steps=100, state=state)
        return describe_run(house, replace(entry, record=record))["progress"]

    assert (progress(RunState.FINISHED), progress(RunState.CANCELLED)) == (1.0, 0.99)


def test_a_run_with_a_lane_is_live(house, daemon, make_run, tmp_path, monkeypatch):
    monkeypatch.setenv("PALAESTRA_LANES_DIR", str(tmp_path))
    first, second = make_run("first"), make_run("second")
    frame_buffer_path(first.id).touch()
    described = describe_runs(house, [daemon.get(first.id), daemon.get(second.id)])
    assert [run["is_live"] for run in described] == [True, False]
