import subprocess
import sys
from dataclasses import replace

import gymnasium
import pytest

import palaestra
from palaestra import api
from palaestra.cluster.evaluation.jobs import Status
from palaestra.config.train import TrainConfig
from palaestra.core.errors import DamagedFile, NotFound, UsageError
from palaestra.core.trials import TrialResult
from palaestra.runs.documents import read_config, read_request


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """One run called `mine`, trained by the function under test."""
    runs_root = tmp_path_factory.mktemp("api") / "runs"
    settings = {"ppo.gamma": 0.9}
    outcome = api.train("cartpole", run="mine", total_steps=512, runs_root=runs_root, **settings)
    assert outcome.exit_code == 0
    return runs_root


def test_training_is_a_function_and_its_settings_are_kept(root):
    (record,) = palaestra.runs(root)
    assert palaestra.runs(root) == [record]  # also the second time, when the package is loaded
    assert (record.name, record.agent_step, record.state) == ("mine", 512, "finished")
    directory = api.RunStore(root).resolve("mine")
    assert read_config(directory)["ppo"]["gamma"] == 0.9
    request = read_request(directory)
    assert (request.submitted_by, request.config) == ("python", {"total_steps": 512, "ppo": {"gamma": 0.9}})


def test_an_evaluation_is_a_function(root):
    report = api.evaluate("mine", episodes=2, seed=3, runs_root=root)
    assert [episode.seed for episode in report.episodes] == [3, 4]
    assert len(report.returns) == 2


def test_a_request_for_judgements_elsewhere_is_a_function(root, monkeypatch):
    known = api.evaluate("mine", episodes=2, seed=40, runs_root=root)
    planned = palaestra.request_policy_eval("mine:all", episodes=2, seed=40, dry_run=True, runs_root=root)
    assert {order.status for order in planned} == {"known"}
    assert planned[-1].mean == known.mean
    sent = []

    def answered(orders, cluster):
        for order in reversed(orders):  # in whatever order they come back
            sent.append((order.suite, order.status, cluster))
            yield replace(order, status=Status.DONE, mean=float(order.number))

    monkeypatch.setattr("palaestra.cluster.evaluation.jobs.request_evaluations", answered)
    suites = ["default", "acrobot"]
    orders = palaestra.request_policy_eval("mine:latest", suites=suites, again=True, address="head:1", runs_root=root)
    assert sent == [("acrobot", "new", {"address": "head:1"}), ("default", "new", {"address": "head:1"})]
    assert [(order.suite, order.mean) for order in orders] == [("default", 0.0), ("acrobot", 1.0)]


def test_an_analysis_is_a_function(root, tmp_path):
    judged = api.evaluate("mine", episodes=2, seed=3, runs_root=root).checkpoint
    analysis = palaestra.analyze("mine", html=tmp_path / "report.html", runs_root=root)
    (row,) = analysis.scores.policies
    assert row.label == analysis.weights[0].label == f"mine:{judged.rpartition(':')[2]}"
    assert row.mean.value >= 1
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert api.analyze("mine", weights=False, metrics=["losses/entropy"], runs_root=root).weights == ()


def test_a_film_is_a_function(root, tmp_path):
    made = palaestra.film("mine", episodes=2, grid=2, seed=3, out=tmp_path / "a.mp4", runs_root=root)
    assert [episode.seed for episode in made.episodes] == [3, 4]
    assert made.path.stat().st_size > 1000


def test_a_policy_comes_back_and_acts(root):
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=1)
    assert env.action_space.contains(api.load_policy("mine", root).act(observation))
    env.close()


def test_wrong_settings_are_refused_like_on_the_command_line(tmp_path):
    with pytest.raises(UsageError, match="total_steps"):
        api.train("cartpole", totl_steps=5, runs_root=tmp_path)
    with pytest.raises(NotFound, match="cartpole"):
        api.train("carpole", runs_root=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_continued_with_the_settings_it_was_made_with(root):
    request, config = api.prepare_continuation(root, "latest", {"total_steps": 1024})
    stored = TrainConfig.model_validate(read_config(api.RunStore(root).resolve("mine")))
    assert (request.name, request.recipe) == ("mine", "cartpole")
    assert config == stored.model_copy(update={"total_steps": 1024})


def test_a_stored_configuration_that_is_none_is_damaged(root, monkeypatch):
    monkeypatch.setattr(api, "read_config", lambda _directory: {"total_steps": "many"})
    with pytest.raises(DamagedFile, match=r"config\.yaml"):
        api.prepare_continuation(root, "mine", {})


def test_a_sweep_is_a_function(tmp_path, monkeypatch):
    """Everything but the training itself: what is asked reaches the slots."""
    seen = []

    class Slots:
        slots = 1

        def __init__(self, wanted):
            seen.append(wanted.count)

        def start(self, order):
            seen.append(order.name)
            return order.name

        def finished(self, _seconds):
            return [TrialResult(seen[-1], 2, "refused")]

        def close(self):
            seen.append("closed")

    monkeypatch.setattr("palaestra.sweeps.search.find_slots", lambda _executor: Slots)
    outcome = palaestra.sweep(
        "cartpole", parameters={"ppo.gamma": [0.9, 0.99]}, name="lr", slots=3, metric="return", runs_root=tmp_path
    )
    assert seen == [3, "lr-t1", "lr-t2", "closed"]
    assert [trial.reason for trial in outcome.trials] == ["refused", "refused"]
    with pytest.raises(UsageError, match="Did you mean 'trials'"):
        palaestra.sweep("cartpole", parameters={"ppo.gamma": [0.9, 0.99]}, trails=3, runs_root=tmp_path)


def test_every_function_is_offered_by_completion_before_it_is_loaded():
    code = "import palaestra, sys; print(sorted(set(palaestra.__all__) - set(dir(palaestra))), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] False\n"
