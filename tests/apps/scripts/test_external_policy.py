"""A script's checkpoint is judged like any other; what it plays is played again by hand."""

import sys
import time
import venv
from contextlib import closing

import gymnasium
import numpy as np
import pytest
import torch

from palaestra.apps.scripts.external_policy import ScriptPolicy, families
from palaestra.apps.scripts.launcher import rebuild
from palaestra.checkpoints.loading import load_policy
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.core import plugins
from palaestra.core.errors import DamagedFile, NotFound, RefusedFile, RunFailed, UsageError
from palaestra.core.evaluation import Stopped
from palaestra.evaluation.session import EvaluationCallbacks, EvaluationOptions, EvaluationSession, evaluate_target
from palaestra.evaluation.targets import ExternalTarget, load_policy_target, load_target
from palaestra.rendering.frame_buffer import EVALUATE, frame_buffer_path
from palaestra.rendering.frame_format import Demand
from palaestra.rendering.frame_reader import FrameReader
from palaestra.runs.documents import read_config, write_config
from palaestra.runs.files import read_json


@pytest.fixture
def saved(runs, scripts, ppo_agent):
    return runs.saved(scripts / "ppo.py", {"agent": ppo_agent})


def by_hand(agent, seed):
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=seed)
    total, ended = 0.0, False
    while not ended:
        with torch.no_grad():
            action = agent.actor(torch.tensor(observation)[None]).argmax(1).item()
        observation, reward, terminated, truncated, _ = env.step(action)
        total, ended = total + reward, terminated or truncated
    env.close()
    return total


@pytest.mark.slow
def test_the_script_plays_as_its_network_says_and_the_score_reaches_the_sidecar(saved, ppo_agent, runs):
    with EvaluationSession(
        load_target(saved.id, runs.store.root), EvaluationOptions(episodes=2, seed=40, video=True)
    ) as session:
        first, second = session.evaluate(0), session.evaluate(1)
    played = first.returns + second.returns
    assert played == [by_hand(ppo_agent, seed) for seed in (40, 41, 42, 43)]
    batches = read_json(saved.eval_summary_file)["batches"]
    assert [batch["mean"] for batch in batches] == [first.mean, second.mean]
    assert CheckpointManager(saved).open("best").checkpoint.score == sum(played) / 4
    videos = sorted(path.name for path in saved.videos.iterdir())
    assert videos == [f"1-seed{seed}.mp4" for seed in (40, 41, 42, 43)]


def by_hand_through(agent, statistics, seed):
    """Normalised as the script does it, written out."""
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=seed)
    total, ended = 0.0, False
    while not ended:
        visited = np.clip((observation - statistics.mean) / np.sqrt(statistics.var + 1e-8), -1.5, 1.5)
        with torch.no_grad():
            action = agent.actor(torch.tensor(visited, dtype=torch.float32)).argmax().item()
        observation, reward, terminated, truncated, _ = env.step(action)
        total, ended = total + reward, terminated or truncated
    env.close()
    return total


@pytest.mark.slow
def test_what_a_script_puts_around_all_environments_is_there_when_it_plays(runs, scripts, definitions):
    path = scripts / "vector_wrappers.py"
    script = definitions(path, {"agent": "Agent"}, env_id="CartPole-v1", num_envs=2, normalise=True)
    envs = rebuild.wrap_vector_env(script, gymnasium.vector.SyncVectorEnv([script.make_env("CartPole-v1")] * 2))
    torch.manual_seed(3)
    agent = script.Agent(envs)
    envs.reset(seed=1)
    for _ in range(60):
        envs.step(np.array([1, 1]))
    statistics = envs.env.obs_rms
    directory = runs.saved(path, {"agent": agent, "envs": envs})
    seeds = range(20, 24)
    played = evaluate_target(directory.id, runs.store.root, episodes=4, seed=20).returns
    assert played == [by_hand_through(agent, statistics, seed) for seed in seeds]
    assert played != [by_hand(agent, seed) for seed in seeds], "it would have played otherwise without"
    envs.close()
    script.envs.close()


@pytest.mark.slow
@pytest.mark.full
def test_an_evaluation_of_a_script_can_be_watched_while_it_lasts(saved, runs, tmp_path, monkeypatch):
    monkeypatch.setenv("PALAESTRA_FRAME_BUFFERS_DIR", str(tmp_path))
    visited = []
    with EvaluationSession(load_target(saved.id, runs.store.root), EvaluationOptions(episodes=5000)) as session:
        with closing(FrameReader(frame_buffer_path(saved.id, EVALUATE))) as reader:

            def on_episode(_episode):
                reader.request(Demand(30.0, 300, frozenset({0}), 0, 0), time.monotonic() + 2)
                visited.extend(frame for frame in [reader.read(0)] if frame is not None)

            with pytest.raises(Stopped):
                session.evaluate(0, EvaluationCallbacks(on_episode, lambda: bool(visited)))
            assert reader.heartbeat().episodes > 0
    assert (visited[0].header.height, visited[0].header.width) == (200, 300)
    assert not frame_buffer_path(saved.id, EVALUATE).exists()


@pytest.mark.slow
def test_a_network_that_its_class_no_longer_makes_is_reported_in_one_sentence(runs, scripts, tmp_path, ppo_agent):
    beside = tmp_path / "networks.py"
    beside.write_text("SIZE = 32\n")
    script = tmp_path / "ppo.py"
    text = (scripts / "ppo.py").read_text().replace("import tyro\n", "import tyro\nfrom networks import SIZE\n")
    script.write_text(
        text.replace("nn.Linear(size, 32)", "nn.Linear(size, SIZE)").replace("nn.Linear(32", "nn.Linear(SIZE")
    )
    directory = runs.saved(script, {"agent": ppo_agent})
    beside.write_text("SIZE = 16\n")
    with pytest.raises(
        RunFailed, match=r"'agent' \(Agent\) differs from .* \(32, 4\) in the checkpoint and \(16, 4\) now"
    ):
        evaluate_target(directory.id, runs.store.root, episodes=1)


def test_only_the_id_of_its_environment_can_be_changed(saved, runs):
    options = EvaluationOptions(episodes=1, overrides={"env": {"max_episode_steps": 5}})
    with pytest.raises(UsageError, match="makes its environment itself"):
        EvaluationSession(load_target(saved.id, runs.store.root), options)
    with pytest.raises(UsageError, match="leaves no replays"):
        EvaluationSession(load_target(saved.id, runs.store.root), EvaluationOptions(replays=True))


def test_loading_an_external_policy_names_the_commands_that_can_play_it(saved, runs):
    assert isinstance(load_target(saved.id, runs.store.root), ExternalTarget)
    with pytest.raises(UsageError, match=f"palaestra eval {saved.id}:1"):
        load_policy_target(saved.id, runs.store.root)
    with pytest.raises(UsageError, match="saved by the script ppo.py"):
        load_policy(saved.id, runs.store.root)


def test_a_checkpoint_from_elsewhere_is_not_played_for_its_code(saved, runs, tmp_path):
    with pytest.raises(RefusedFile, match="would run the code that came with it"):
        load_target(str(saved.path), tmp_path / "another-store")


def test_a_script_beside_the_weights_that_is_not_the_one_they_name_is_refused(saved):
    opened = CheckpointManager(saved).open("latest")
    opened.checkpoint.policy["sha256"] = "0" * 64
    with pytest.raises(DamagedFile, match="differs from the recorded one"):
        ScriptPolicy(opened, saved)


@pytest.fixture
def another_interpreter(tmp_path):
    """One of its own that has what ours has, and a file that tells where it was started."""
    room, reported = tmp_path / "interpreter", tmp_path / "started"
    venv.create(room, with_pip=False)
    (site,) = room.glob("lib/python*/site-packages")
    (site / "ours.pth").write_text("\n".join(one for one in sys.path if one.endswith("site-packages")))
    (site / "sitecustomize.py").write_text(f"import pathlib\npathlib.Path({str(reported)!r}).touch()\n")
    return room / "bin" / "python", reported


@pytest.mark.slow
@pytest.mark.full
def test_the_interpreter_that_trained_it_plays_it(runs, scripts, ppo_agent, another_interpreter):
    python, reported = another_interpreter
    directory = runs.saved(scripts / "ppo.py", {"agent": ppo_agent}, python=str(python))
    reported.unlink()
    assert evaluate_target(directory.id, runs.store.root, episodes=1, seed=40).returns == [by_hand(ppo_agent, 40)]
    assert reported.exists()


def test_an_interpreter_that_is_gone_is_named(saved):
    write_config(saved, {**read_config(saved), "python": "/gone/python"})
    with pytest.raises(NotFound, match="no interpreter /gone/python"):
        ScriptPolicy(CheckpointManager(saved).open("latest"), saved)


def test_families_of_plugins_are_found_without_being_imported(monkeypatch, tmp_path):
    (tmp_path / "made_family.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(plugins, "references", lambda kind: {kind: "made_family"})
    assert families() == [str(tmp_path / "made_family.py")]
