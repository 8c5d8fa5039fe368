import subprocess

import learning
import pytest

from learn.result import Result, write_result
from learn.tasks import TASKS
from palaestra.core.errors import UsageError


def trained(job, mean=7.0):
    return Result(job, job.total_steps, (mean,), 0.0, 1.0, {})


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setattr(learning, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(learning, "PAGES", tmp_path)
    (tmp_path / "kept").mkdir()
    return tmp_path / "kept"


@pytest.fixture
def started(kept, monkeypatch):
    """The words of every process that would have been started; each leaves the result it was asked for."""
    calls = []

    def pretend(words, check, env, cwd):
        assert check
        assert env["OMP_NUM_THREADS"] == "1"
        calls.append([str(word) for word in words])
        job = learning.Job(**learning.json.loads(words[-2].read_text()))
        write_result(words[-1], trained(job))

    monkeypatch.setattr(subprocess, "run", pretend)
    return calls


def test_without_a_word_every_task_is_trained_by_both_with_its_own_seeds():
    arguments = learning.parse([])
    jobs = learning.wanted(arguments.tasks, arguments.seeds, arguments.side, {})
    assert len(jobs) == 2 * sum(len(task.seeds) for task in TASKS.values())
    assert len({job.name for job in jobs}) == len(jobs)


def test_an_unknown_task_is_refused_with_the_nearest_name(capsys):
    with pytest.raises(SystemExit) as left:
        learning.parse(["--tasks", "cartpole,pendulm"])
    assert left.value.code == 2
    assert "Did you mean 'pendulum'?" in capsys.readouterr().err


def test_a_trial_changes_our_side_only():
    with pytest.raises(UsageError, match="--side ours"):
        learning.wanted(["cartpole"], [1], "both", {"ppo": {"gamma": 0.5}})
    (plain,) = learning.wanted(["cartpole"], [1], "ours", {})
    (other,) = learning.wanted(["cartpole"], [1], "ours", {"ppo": {"gamma": 0.5}})
    assert other.settings["ppo"]["gamma"] == 0.5
    assert other.name != plain.name


def test_each_training_is_one_gentle_process_and_is_done_only_once(started, kept, monkeypatch):
    monkeypatch.setattr("sys.argv", ["learning.py", "--tasks", "cartpole", "--seeds", "1,2", "--side", "sb3"])
    assert learning.main() == 0
    assert learning.main() == 0
    assert [words[:3] for words in started] == [["nice", "-n", "19"]] * 2
    assert ["learn.sb3" in words for words in started] == [True, True]
    assert len(list(kept.glob("*.json"))) == 2
    assert not list(kept.glob("*.job"))
    assert "CartPole-v1" in (learning.PAGES / "learning.md").read_text()


def test_a_trial_leaves_the_page_alone(started, kept, monkeypatch):
    words = ["learning.py", "--tasks", "cartpole", "--seeds", "1", "--side", "ours", "--try", "ppo.gamma=0.5"]
    monkeypatch.setattr("sys.argv", words)
    assert learning.main() == 0
    assert len(started) == 1
    assert not (learning.PAGES / "learning.md").exists()


def test_results_of_other_settings_do_not_reach_the_page(kept):
    one, another, *_ = TASKS["cartpole"].seeds
    mine = learning.make_job("ours", "cartpole", one, {})
    trial = learning.make_job("ours", "cartpole", another, {"ppo": {"gamma": 0.5}})
    for job in (mine, trial):
        write_result(kept / f"{job.name}.json", trained(job))
    assert [result.job for result in learning.everything_known()] == [mine]


def test_our_settings_are_distinguished_by_what_differs_from_the_defaults():
    (plain,) = learning.wanted(["cartpole"], [1], "ours", {})
    clipped, gentle = ({"clip_value_loss": True}, {"normalize_advantages": False})
    named = {learning.make_job("ours", "cartpole", 1, {"ppo": change}).name for change in (clipped, gentle)}
    assert len({plain.name, *named}) == 3
    assert learning.make_job("ours", "cartpole", 1, {"ppo": {"target_kl": None}}).name == plain.name


def test_another_machine_continues_where_the_published_results_end(started, kept, monkeypatch):
    monkeypatch.setattr("sys.argv", ["learning.py", "--tasks", "cartpole", "--seeds", "1,2", "--side", "sb3"])
    learning.main()
    for path in kept.iterdir():
        path.unlink()
    monkeypatch.setattr("sys.argv", ["learning.py", "--tasks", "cartpole", "--seeds", "1,2,3", "--side", "sb3"])
    learning.main()
    assert len(started) == 3
