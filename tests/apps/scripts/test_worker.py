"""A script's run from its first line to its last, in processes as a daemon starts them."""

import os
import select
import signal
import subprocess
import time
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path

import gymnasium
import pytest

from palaestra.apps.scripts.checkpoints import read_metadata
from palaestra.apps.scripts.kind import KIND
from palaestra.apps.scripts.launch import read_launch_spec
from palaestra.apps.scripts.metrics import ScriptMetrics
from palaestra.apps.scripts.worker import ScriptFrameBuffer
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.core.run import RunState
from palaestra.evaluation.session import evaluate_target
from palaestra.rendering.frame_reader import FrameReader
from palaestra.rendering.hub import RENEW_SECONDS, Hub
from palaestra.rendering.viewer import Viewer, ViewerRequest
from palaestra.runs.files import read_json
from palaestra.runs.journal import Journal, read_journal
from palaestra.runs.metrics.reader import MetricsReader
from palaestra.runs.processes import is_alive
from palaestra.runs.status import read_record

PATIENCE_SECONDS = 240


def start(directory):
    return subprocess.Popen(
        KIND.command(directory.path),
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def carry_out(directory):
    process = start(directory)
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, output


def metric_names(directory):
    reader = MetricsReader(directory.metrics_file)
    try:
        return {*reader.names(timings=False), *reader.names(timings=True)}
    finally:
        reader.close()


def checkpoint(directory):
    return CheckpointManager(directory).open("latest")


@pytest.mark.slow
def test_a_script_finishes_with_metrics_episodes_and_a_checkpoint(runs, scripts):
    directory = runs.make(scripts / "ppo.py", total_timesteps=512)
    code, output = carry_out(directory)
    record = read_record(directory)
    assert (code, record.state, record.failure) == (0, RunState.FINISHED, ""), output
    assert record.agent_step == 512
    assert record.summary["episodes"] > 5
    assert {"charts/episodic_return", "losses/value_loss", "charts/SPS"} <= metric_names(directory)
    opened = checkpoint(directory)
    assert opened.checkpoint.agent_step == 512
    git = read_json(directory.environment_file)["git"]
    assert opened.checkpoint.git_commit == ("" if git is None else git["commit"])
    assert read_metadata(next(iter(opened.parts.values())))["source"] == (scripts / "ppo.py").read_text()
    assert list(directory.tensorboard.iterdir())
    assert (directory.artifacts / "script.py").read_text() == (scripts / "ppo.py").read_text()
    assert "Adapted for the script" in directory.log_file().read_text()


FAMILIES = [
    ("ppo_continuous_action.py", {}, {"agent.actor_logstd", "normalisers.0.mean"}, "losses/policy_loss"),
    ("dqn.py", {}, {"q_network.network.0.weight", "target_network.network.0.weight"}, "losses/td_loss"),
    ("dqn.py", {"n_atoms": 11}, {"q_network.atoms"}, "losses/td_loss"),
    (
        "sac_continuous_action.py",
        {},
        {"actor.fc.weight", "tensors.log_alpha", "qf1_target.layers.0.weight"},
        "losses/qf_loss",
    ),
    ("sac_continuous_action.py", {"deterministic": True}, {"actor.action_scale"}, "losses/qf_loss"),
]


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize(("name", "settings", "tensors", "loss"), FAMILIES)
def test_every_family_logs_its_returns_is_saved_and_can_be_evaluated(runs, scripts, name, settings, tensors, loss):
    directory = runs.make(scripts / name, **settings)
    code, output = carry_out(directory)
    assert code == 0, output
    assert {"charts/episodic_return", loss} <= metric_names(directory)
    weights, _ = CheckpointManager(directory).load_weights()
    assert tensors <= set(weights)
    report = evaluate_target(directory.id, runs.store.root, episodes=1)
    assert report.complete
    assert report.mean == CheckpointManager(directory).open("best").checkpoint.score


def by_hand_in_numpy(weights, seed):
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=seed)
    total, ended = 0.0, False
    layer = {name: weights[f"q_state.params.params.Dense_0.{name}"].numpy() for name in ("kernel", "bias")}
    while not ended:
        values = observation @ layer["kernel"] + layer["bias"]
        observation, reward, terminated, truncated, _ = env.step(int(values.argmax()))
        total, ended = total + reward, terminated or truncated
    env.close()
    return total


def check_jax_run(runs, script, **settings):
    directory = runs.make(script, **settings)
    code, output = carry_out(directory)
    assert code == 0, output
    weights, _ = CheckpointManager(directory).load_weights()
    assert {"q_state.target_params.params.Dense_0.kernel", "q_state.step", "q_state.opt_state.0.count"} <= set(weights)
    report = evaluate_target(directory.id, runs.store.root, episodes=2, seed=30)
    assert report.returns == [by_hand_in_numpy(weights, seed) for seed in (30, 31)]


@pytest.mark.slow
def test_a_jax_script_is_saved_and_evaluated_with_its_own_classes(runs, scripts, jax_stand_in):
    check_jax_run(runs, scripts / "climb_jax.py")


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.skipif(find_spec("jax") is None or find_spec("flax") is None, reason="jax and flax are not installed")
def test_the_same_holds_for_jax_itself(runs, scripts):
    check_jax_run(runs, scripts / "climb_jax.py")


@pytest.mark.slow
def test_a_stop_saves_and_leaves_no_process(runs, scripts):
    directory = runs.make(scripts / "ppo.py", total_timesteps=10**9)
    process = start(directory)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while read_record(directory).agent_step < 200 and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_SECONDS)
    record = read_record(directory)
    assert (process.returncode, record.state) == (143, RunState.CANCELLED)
    assert checkpoint(directory).checkpoint.agent_step >= 200
    left = subprocess.run(["pgrep", "-f", directory.id], capture_output=True, text=True).stdout
    assert left == ""


def processes_under(pid):
    """The process with that number, and all that it and its children started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in processes_under(int(child)))]


@pytest.mark.slow
@pytest.mark.parametrize("which", ["the script", "its worker"])
def test_killed_at_any_moment_its_last_periodic_checkpoint_is_whole_and_nothing_is_left(runs, scripts, which):
    directory = runs.make(scripts / "ppo.py", total_timesteps=10**9, save_seconds=0.05, keep=3)
    process = start(directory)
    manager = CheckpointManager(directory)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(manager.list_all_checkpoints()) < 3 and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.05)
    worker, script, *_ = everyone = processes_under(process.pid)
    os.kill(script if which == "the script" else worker, signal.SIGKILL)
    process.communicate(timeout=PATIENCE_SECONDS)
    opened = manager.open("latest")
    assert read_metadata(next(iter(opened.parts.values())))["source"] == (scripts / "ppo.py").read_text()
    weights, _ = manager.load_weights()
    assert weights["agent.actor.0.weight"].shape == (32, 4)
    if which == "the script":
        record = read_record(directory)
        assert (process.returncode, record.state) == (1, RunState.FAILED)
        assert "SIGKILL" in record.failure
    while any(is_alive(pid, None) for pid in everyone) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in everyone if is_alive(pid, None)]


@pytest.mark.slow
@pytest.mark.full
def test_a_requested_video_is_recorded_and_found_by_the_runs_page(runs, scripts):
    directory = runs.make(scripts / "ppo.py", total_timesteps=256, capture_video=True)
    code, output = carry_out(directory)
    assert code == 0, output
    videos = sorted(directory.videos.glob("*.mp4"))
    assert videos[0].name.endswith("-rl-video-episode-0.mp4")
    saved = [entry.data["file"] for entry in read_journal(directory.journal_file) if entry.event == "video.saved"]
    assert sorted(saved) == [f"videos/{video.name}" for video in videos]


@pytest.mark.slow
@pytest.mark.full
def test_a_script_for_gymnasium_1_is_left_as_it_is_and_evaluated_with_what_it_puts_around(runs, scripts):
    directory = runs.make(scripts / "vector_wrappers.py")
    code, output = carry_out(directory)
    assert code == 0, output
    assert {"charts/episodic_return", "losses/policy_loss"} <= metric_names(directory)
    (adapted,) = [entry.data for entry in read_journal(directory.journal_file) if entry.event == "script.adapted"]
    assert "vector environments are not adapted: the script is written for Gymnasium 1" in adapted["measures"]
    weights, _ = CheckpointManager(directory).load_weights()
    assert weights["normalisers.vector.count"] > 400
    assert evaluate_target(directory.id, runs.store.root, episodes=2).complete


@pytest.mark.slow
@pytest.mark.full
def test_a_script_that_does_everything_in_a_function_is_saved_and_evaluated_like_the_others(runs, scripts, tmp_path):
    script = tmp_path / "in_a_function.py"
    text = (scripts / "ppo.py").read_text().replace('if __name__ == "__main__":', "def main():")
    script.write_text(text + '\n\nif __name__ == "__main__":\n    main()\n')
    directory = runs.make(script, total_timesteps=256)
    code, output = carry_out(directory)
    assert code == 0, output
    opened = checkpoint(directory)
    assert (opened.checkpoint.agent_step, opened.checkpoint.policy["classes"]) == (256, {"agent": "Agent"})
    assert evaluate_target(directory.id, runs.store.root, episodes=1).complete


@pytest.mark.slow
@pytest.mark.full
def test_statistics_in_processes_of_their_own_are_saved_also_after_those_are_gone(runs, scripts):
    directory = runs.make(scripts / "ppo_continuous_action.py", asynchronous=True, num_envs=2)
    code, output = carry_out(directory)
    assert code == 0, output
    weights, _ = CheckpointManager(directory).load_weights()
    assert {f"normalisers.{index}.mean" for index in (0, 1)} <= set(weights)
    assert weights["normalisers.1.count"] >= 300
    assert evaluate_target(directory.id, runs.store.root, episodes=1).complete


@pytest.mark.slow
@pytest.mark.full
def test_a_script_begins_with_the_weights_of_a_checkpoint(runs, scripts, ppo_agent):
    before = runs.saved(scripts / "ppo.py", {"agent": ppo_agent})
    directory = runs.make(scripts / "ppo.py", total_timesteps=256, learning_rate=0, start_from=before.id)
    code, output = carry_out(directory)
    assert code == 0, output
    weights, _ = CheckpointManager(directory).load_weights()
    for name, value in ppo_agent.state_dict().items():
        assert weights[f"agent.{name}"].equal(value), "with a learning rate of nothing they stay as they began"
    events = {entry.event: entry.data for entry in read_journal(directory.journal_file)}
    assert events["run.started"]["initial_weights"] == events["script.warmed"]["checkpoint"] == f"{before.id}:1"
    assert "vector environments reset in the same step" in events["script.adapted"]["measures"][1]


@pytest.mark.full
@pytest.mark.slow
def test_environments_in_processes_of_their_own_keep_numbers_and_episodes(runs, scripts):
    directory = runs.make(scripts / "ppo.py", total_timesteps=512, asynchronous=True)
    code, output = carry_out(directory)
    assert code == 0, output
    reader = MetricsReader(directory.metrics_file)
    try:
        assert {episode.env_index for episode in reader.episodes()} == {0, 1}
    finally:
        reader.close()


@pytest.mark.full
@pytest.mark.slow
def test_a_script_that_fails_is_reported_by_its_error(runs, scripts):
    directory = runs.make(scripts / "ppo.py", env_id="CartPool-v1")
    code, output = carry_out(directory)
    record = read_record(directory)
    assert (code, record.state) == (1, RunState.FAILED)
    assert "CartPole" in record.failure  # Gymnasium names the nearest
    assert "Traceback" in output


@pytest.mark.slow
def test_a_plain_script_is_watched_too_and_says_when_nothing_was_observed(runs, tmp_path):
    script = tmp_path / "plain.py"
    script.write_text("import sys\nprint('hello', sys.argv[1:])\n")
    directory = runs.make(script, kind="script", some_key=3)
    code, output = carry_out(directory)
    assert (code, read_record(directory).state) == (0, RunState.FINISHED)
    assert "hello ['--some-key', '3']" in output
    log = directory.log_file().read_text()
    assert "No episode ended" in log
    assert "no network was found among the variables of the script" in log
    events = {entry.event: entry.data for entry in read_journal(directory.journal_file)}
    assert events["script.silent"] == {"reason": "the script made no environment with gymnasium.make"}
    assert "run.finished" in events


LIVE_TIMEOUT_SECONDS = 120


@pytest.fixture(autouse=True)
def lanes(tmp_path, monkeypatch):
    monkeypatch.setenv("PALAESTRA_FRAME_BUFFERS_DIR", str(tmp_path))


def test_a_frame_buffer_is_made_when_the_environments_are_known_and_gone_at_the_end(runs, scripts):
    directory = runs.make(scripts / "ppo.py")
    path, metrics = read_launch_spec(directory).frame_buffer, ScriptMetrics()
    with ScriptFrameBuffer(path, Journal(directory)) as frame_buffer:
        frame_buffer.take([["env", 0], ["env", 1]], metrics)
        assert not path.exists(), "more may be made before the first step"
        metrics.take([["heartbeat", 4, 1.0]])
        frame_buffer.take([["live_view_failed", "no screen"]], metrics)
        with closing(FrameReader(path)) as reader:
            assert reader.slot_count == 2
    assert not path.exists()
    failed = [entry.data for entry in read_journal(directory.journal_file) if entry.event == "frames.failed"]
    assert failed == [{"reason": "no screen", "role": "train"}]


def test_a_budget_of_zero_means_no_frame_buffer(runs, scripts):
    directory = runs.make(scripts / "ppo.py", live_budget=0)
    assert read_launch_spec(directory).frame_buffer is None
    metrics = ScriptMetrics()
    metrics.take([["heartbeat", 4, 1.0]])
    with ScriptFrameBuffer(None, Journal(directory)) as frame_buffer:
        frame_buffer.take([["env", 0]], metrics)


def test_a_frame_buffer_that_cannot_be_made_is_reported_and_does_not_stop_the_script(runs, scripts, tmp_path):
    directory, metrics = runs.make(scripts / "ppo.py"), ScriptMetrics()
    metrics.take([["heartbeat", 4, 1.0]])
    with ScriptFrameBuffer(tmp_path / "absent" / "a.frames", Journal(directory)) as frame_buffer:
        frame_buffer.take([["env", 0]], metrics)
        frame_buffer.take([["env", 1]], metrics)
    assert [entry.event for entry in read_journal(directory.journal_file)].count("frames.failed") == 1


def slots_seen(directory, wanted, process):
    """Slots of which pictures came, by the time that all `wanted` have, each with the episode's numbers."""
    hub, viewer = Hub(is_alive), Viewer(ViewerRequest(frames_per_second=15, slots=frozenset(wanted), largest_side=256))
    watch = hub.join(directory.id, "train", viewer)
    visited, deadline = set(), time.monotonic() + LIVE_TIMEOUT_SECONDS
    try:
        while visited != set(wanted) and time.monotonic() < deadline:
            assert process.poll() is None, process.communicate()[0]
            hub.renew(time.monotonic())
            if select.select([hub], [], [], RENEW_SECONDS)[0]:
                hub.on_notification()
            while (message := watch.take(viewer, time.monotonic())) is not None:
                assert message[:2] == b"PF"
                visited.add(int.from_bytes(message[4:6], "little"))
                viewer.acknowledge()
        return visited
    finally:
        hub.close()


def render_processes(directory):
    """Command lines of those that write into the frame buffer of this run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            arguments = path.read_bytes().decode(errors="replace").split("\0")
            if any(directory.id in word for word in arguments) and any(
                word.endswith("rendering/start.py") for word in arguments
            ):
                found.append(arguments)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "asynchronous"),
    [
        ("CartPole-v1", False),
        pytest.param("CartPole-v1", True, marks=pytest.mark.full),
        pytest.param("LunarLander-v3", False, marks=pytest.mark.full),
    ],
)
def test_every_environment_of_a_script_is_observed_in_its_own_slot(runs, scripts, env_id, asynchronous):
    """Rendered by one process beside the script, which ends with it."""
    config = {"num_envs": 3, "total_timesteps": 10**9, "asynchronous": asynchronous, "env_id": env_id}
    directory = runs.make(scripts / "ppo.py", **config)
    process = subprocess.Popen(
        KIND.command(directory.path),
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert slots_seen(directory, range(3), process) == {0, 1, 2}
        assert len(render_processes(directory)) == 1
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIVE_TIMEOUT_SECONDS)
    assert not read_launch_spec(directory).frame_buffer.exists()
    deadline = time.monotonic() + LIVE_TIMEOUT_SECONDS
    while render_processes(directory):
        assert time.monotonic() < deadline, "a render process was left behind"
        time.sleep(0.01)
