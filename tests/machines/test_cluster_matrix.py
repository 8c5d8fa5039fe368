"""Evaluation and sweeps on Ray over three machines: killed, cut, rejoined, late; results are those of one machine."""

from __future__ import annotations

import json
import shutil
import time
from importlib import metadata

import pytest

from tests.machines.cluster import (
    RAY_START_SECONDS,
    copy_token,
    episodes,
    head_address,
    start_cluster,
    start_head,
    start_worker,
    wait_for_text,
)
from tests.machines.machines import reason_no_clock_offset, wait_until
from tests.machines.training import message

pytestmark = pytest.mark.machines

CHECKPOINTS, EPISODES = 50, 4
SUITES = {
    "plain.yaml": "simulations: {plain: {category: training}}\n",
    "short.yaml": "simulations: {short: {category: speed, env: {max_episode_steps: 60}}}\n",
}
HEAL_LIMIT = 30.0  # until work of a lost machine is played elsewhere
TRIALS = 12
SWEEP = [
    "cartpole",
    "sweep=grid",
    "ppo.learning_rate=1e-4,3e-4,1e-3,3e-3",
    "ppo.gamma=0.9,0.98,0.99",
    "total_steps=20480",
    "ppo.env_count=2",
    "ppo.horizon=16",
    "ppo.minibatch_size=16",
    "checkpoints.save_interval=50",
    "metric=return",
    "loggers.tensorboard=false",
]


@pytest.fixture(scope="module")
def trained(shared_network, tmp_path_factory):
    """A run with 50 checkpoints, and the episodes of its local evaluation in two suites."""
    machine = shared_network.add("alone")
    sizes = ["ppo.env_count=2", "ppo.horizon=16", "ppo.minibatch_size=16", "loggers.tensorboard=false", "--quiet"]
    keep = ["checkpoints.save_interval=1", f"checkpoints.keep={CHECKPOINTS}"]
    steps = f"total_steps={CHECKPOINTS * 2 * 16}"
    done = machine.run(["palaestra", "train", "cartpole", "run=many", steps, *sizes, *keep], seconds=200)
    assert done.returncode == 0, done.stderr
    copy = tmp_path_factory.mktemp("trained") / "runs"
    shutil.copytree(machine.runs, copy, symlinks=True)
    write_suites(machine)
    targets = [f"many:{epoch}" for epoch in range(1, CHECKPOINTS + 1)]
    for suite in SUITES:
        command = ["palaestra", "eval", *targets, f"suite={suite}", "--episodes", str(EPISODES)]
        done = machine.run(command, seconds=300)
        assert done.returncode == 0, done.stderr
    local = episodes(run_directory(machine))
    assert len(local) == CHECKPOINTS * EPISODES * len(SUITES)
    return copy, local


def write_suites(machine):
    for name, text in SUITES.items():
        (machine.home / name).write_text(text)


def run_directory(machine):
    (found,) = [path for path in machine.runs.iterdir() if path.name != "by-name" and path.is_dir()]
    return found


def give_run(machine, copy):
    shutil.copytree(copy, machine.runs, symlinks=True)
    write_suites(machine)


def request(head, *more):
    suites = [f"suite={name}" for name in SUITES]
    arguments = ["many:all", *suites, "--episodes", str(EPISODES), f"cluster.address={head_address(head)}", *more]
    return head.start(["palaestra", "request-eval", *arguments])


def count(row, own, local):
    """Lost, doubled and equality of episodes; `row` is a line of the table."""
    row.lost, row.doubled = len(set(local) - set(own)), len(own) - len(set(own))
    row.equal = own == local


def done_episodes(head):
    return len(episodes(run_directory(head)))


def test_evaluation_survives_a_killed_and_a_cut_machine(network, row, trained):
    line = row(f"{CHECKPOINTS} checkpoints x 2 suites: a machine killed, one cut and rejoined", 300.0)
    copy, local = trained
    head, first, second, third = (network.add(name) for name in ("head", "first", "second", "third"))
    give_run(head, copy)
    start_cluster(head, [first, second, third])
    start = time.monotonic()
    job = request(head)
    wait_until(lambda: done_episodes(head) > 0 or job.has_ended, "the first result", 180)
    assert not job.has_ended, "ended before the fault: play more episodes"
    first.kill()
    second.cut_for(10)
    code = job.wait(600)
    line.seconds = time.monotonic() - start
    line.note = (job.out + job.err).strip().splitlines()[-1][:300]
    count(line, episodes(run_directory(head)), local)
    assert code == 0, job.err[-2000:]
    line.check()


def test_a_machine_that_is_cut_for_good_costs_half_a_minute(network, row, trained):
    line = row("evaluation, a machine cut for good in mid-batch", 120.0)
    copy, local = trained
    head, first, second = (network.add(name) for name in ("head", "first", "second"))
    give_run(head, copy)
    start_cluster(head, [first, second])
    job = request(head)
    wait_until(lambda: done_episodes(head) > 0 or job.has_ended, "the first result", 180)
    start = time.monotonic()
    first.link_down()
    code = job.wait(600)
    line.seconds = time.monotonic() - start
    count(line, episodes(run_directory(head)), local)
    assert code == 0, job.err[-2000:]
    line.check()
    line = row("evaluation after that, the dead machine still known to Ray", 60.0)
    start = time.monotonic()
    done = head.run(["palaestra", "eval", "many:3", "remote=true", f"cluster.address={head_address(head)}"])
    line.seconds = time.monotonic() - start
    line.note = done.stderr.strip()[-300:]
    assert done.returncode == 0, done.stderr
    line.check()


def test_other_code_on_a_worker_is_left_out_by_name(network, row, trained, tmp_path):
    line = row("other code on a worker (evaluation)", 120.0)
    copy, local = trained
    edited = network.source.copy(tmp_path / "edited", {"envs/__init__.py": lambda text: text + "\n# edited\n"})
    head, first, other = network.add("head"), network.add("first"), network.add("other", code=edited)
    give_run(head, copy)
    start_cluster(head, [first, other])
    start = time.monotonic()
    job = request(head)
    code = job.wait(400)
    line.seconds = time.monotonic() - start
    count(line, episodes(run_directory(head)), local)
    named = [text for text in (job.out + job.err).splitlines() if other.address in text or "other" in text]
    line.note = named[0][:300] if named else "(not named)"
    assert code == 0, job.err[-2000:]
    assert named
    assert "envs/__init__.py" in job.out + job.err
    line.check()


def test_only_workers_with_other_code_are_an_error(network, row, trained, tmp_path):
    line = row("other code on every worker", 60.0)
    edited = network.source.copy(tmp_path / "edited", {"envs/__init__.py": lambda text: text + "\n# edited\n"})
    head, other = network.add("head"), network.add("other", code=edited)
    give_run(head, trained[0])
    start_cluster(head, [other])
    start = time.monotonic()
    done = head.run(["palaestra", "eval", "many:3", "remote=true", f"cluster.address={head_address(head)}"])
    line.seconds = time.monotonic() - start
    line.note = done.stderr.strip().splitlines()[-1][:300]
    assert done.returncode != 0
    line.check()


def test_a_wrong_token_is_named_on_the_worker(network, row):
    line = row("wrong token", 90.0)
    head, worker = network.add("head"), network.add("worker")
    start_head(head)
    copy_token(head, worker)
    (worker.home / ".ray" / "auth_token").write_text("0" * 64)
    job = start_worker(worker, head)
    line.seconds = wait_for_text_or_end(job, "token", line.limit)
    line.note = message(job)
    assert "token" in (job.out + job.err).lower()
    line.check()


def wait_for_text_or_end(job, text, limit):
    return wait_until(lambda: job.has_ended or text in (job.out + job.err).lower(), f"'{text}' or the end", limit + 60)


def test_workers_rejoin_a_restarted_head(network, row, trained):
    line = row("head restarted", RAY_START_SECONDS)
    copy, local = trained
    head, worker = network.add("head"), network.add("worker")
    give_run(head, copy)
    start_cluster(head, [worker])
    head.reboot()
    start = time.monotonic()
    start_head(head)
    command = ["palaestra", "eval", "many:3", "remote=true", "suite=plain.yaml", "--episodes", str(EPISODES)]
    command.append(f"cluster.address={head_address(head)}")

    def has_played():
        return head.run(command, seconds=200).returncode == 0

    wait_until(has_played, "an evaluation on the worker that came back", RAY_START_SECONDS)
    line.seconds = time.monotonic() - start
    own = episodes(run_directory(head))
    line.equal = bool(own) and set(own) <= set(local)
    line.check()


def test_a_worker_whose_link_was_cut_for_a_minute_rejoins(network, row, trained):
    line = row("worker's link down for 60 s, rejoins", RAY_START_SECONDS)
    head, worker = network.add("head"), network.add("worker")
    give_run(head, trained[0])
    _, job = start_cluster(head, [worker])
    worker.cut_for(60)
    start = time.monotonic()
    command = ["palaestra", "eval", "many:3", "remote=true", f"cluster.address={head_address(head)}"]
    wait_until(lambda: head.run(command, seconds=200).returncode == 0, "an evaluation", RAY_START_SECONDS)
    line.seconds = time.monotonic() - start
    assert not job.has_ended, job.err
    assert "raylet" not in job.err
    line.check()


def test_a_clock_an_hour_off_does_not_matter(network, row, trained):
    line = row("clock of a worker an hour off (evaluation)", 200.0)
    if reason := reason_no_clock_offset():
        pytest.skip(reason)
    copy, local = trained
    head, worker = network.add("head"), network.add("worker")
    worker.set_clock_offset(3600)
    give_run(head, copy)
    start_cluster(head, [worker])
    start = time.monotonic()
    job = request(head)
    assert job.wait(400) == 0, job.err
    line.seconds = time.monotonic() - start
    count(line, episodes(run_directory(head)), local)
    line.check()


def test_the_head_listens_only_where_it_was_reported(network, row):
    line = row("ports of the head that other addresses reach", None)
    head = network.add("head")
    start_head(head)
    listening = head.run(["ss", "-ltnH"]).stdout.splitlines()
    open_to_all = [text.split()[3] for text in listening if text.split()[3].startswith(("0.0.0.0", "*", "[::]"))]
    line.note = f"{len(open_to_all)} of {len(listening)} sockets listen on all addresses: {', '.join(open_to_all)}"


def sweep_results(machine):
    """{settings: value} of all finished trials, and how many trials there are."""
    done = machine.run(["palaestra", "sweep", "show", "grid", "--json"])
    assert done.returncode == 0, done.stderr
    trials = json.loads(done.stdout)["trials"]
    finished = [trial for trial in trials if trial["value"] is not None]
    return {json.dumps(trial["settings"], sort_keys=True): trial["value"] for trial in finished}, len(trials)


@pytest.fixture(scope="module")
def local_sweep(shared_network):
    machine = shared_network.add("single")
    done = machine.run(["palaestra", "sweep", *SWEEP, "--slots", "2", "--quiet"], seconds=600)
    assert done.returncode == 0, done.stderr
    return sweep_results(machine)


def test_a_sweep_survives_a_killed_machine_and_uses_a_late_one(network, row, local_sweep):
    line = row(f"sweep of {TRIALS} trials: a machine killed, one joined late", 600.0)
    head, first, second, late = (network.add(name) for name in ("head", "first", "second", "late"))
    start_cluster(head, [first, second])
    start = time.monotonic()
    job = head.start(["palaestra", "sweep", *SWEEP, "executor=ray", f"cluster.address={head_address(head)}"])
    wait_until(lambda: job.has_ended or len(list(head.runs.glob("*/checkpoints/*.yaml"))) >= 2, "checkpoints", 300)
    assert not job.has_ended, job.err[-2000:]
    copy_token(head, late)
    joined = start_worker(late, head)
    first.kill()
    wait_for_text(joined, head_address(head))
    code = job.wait(900)
    line.seconds = time.monotonic() - start
    assert code == 0, job.err[-2000:]
    results, count_of_trials = sweep_results(head)
    line.lost, line.doubled = TRIALS - len(results), count_of_trials - TRIALS
    line.equal = (results, count_of_trials) == local_sweep
    line.check()


def test_two_clusters_with_one_token_do_not_mix(network, row, trained):
    line = row("two clusters with one token", 120.0)
    copy, local = trained
    pairs = [(network.add(f"head-{name}"), network.add(f"worker-{name}")) for name in ("a", "b")]
    for head, worker in pairs:
        give_run(head, copy)
        if head is not pairs[0][0]:
            copy_token(pairs[0][0], head)
        start_cluster(head, [worker])
    start = time.monotonic()
    jobs = [request(head) for head, _ in pairs]
    for (head, worker), job in zip(pairs, jobs, strict=True):
        assert job.wait(400) == 0, job.err[-2000:]
        count(line, episodes(run_directory(head)), local)
        nodes = json.loads(head.run(["palaestra", "cluster", f"cluster.address={head_address(head)}", "--json"]).stdout)
        assert {node["address"] for node in nodes["nodes"]} == {head.address, worker.address}
    line.seconds = time.monotonic() - start
    line.check()


def test_another_torch_on_a_worker_is_named(network, row, trained):
    line = row("another torch version on a worker", 60.0)
    head, other = network.add("head"), network.add("other")
    give_run(head, trained[0])
    described = other.home / "METADATA"
    described.write_text("Metadata-Version: 2.1\nName: torch\nVersion: 1.0.0\n")
    installed = next(file for file in metadata.files("torch") if file.name == "METADATA").locate()
    assert other.run(["mount", "--bind", described.name, str(installed)]).returncode == 0
    start_head(head)
    copy_token(head, other)
    command = ["palaestra", "worker", "--address", head_address(head), "--cpus", "1"]
    joined = other.start(command)
    wait_for_text(joined, head_address(head))
    start = time.monotonic()
    done = head.run(["palaestra", "eval", "many:3", "remote=true", f"cluster.address={head_address(head)}"])
    line.seconds = time.monotonic() - start
    line.note = " ".join(done.stderr.split())[-300:]
    assert done.returncode == 2, done.stderr  # it is the only node that could play
    assert "its code differs: torch 1.0.0 (here" in done.stderr
    line.check()
