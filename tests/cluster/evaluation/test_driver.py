"""The process that speaks with Ray, with somebody in Ray's place who does what a test wants."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from palaestra.checkpoints.files import model_name, trainer_state_name
from palaestra.checkpoints.sidecar import decode
from palaestra.cluster.evaluation import driver as driver_module
from palaestra.cluster.evaluation.dispatch import RETRIES
from palaestra.cluster.evaluation.driver import Driver, WeightStore, describe_ray_error, packed, play
from palaestra.cluster.evaluation.messages import share_from_json
from palaestra.cluster.nodes import Change
from palaestra.config.distributed import ClusterConfig
from palaestra.core.errors import DamagedFile, NotFound
from palaestra.evaluation.plans import make_plan, make_request, request_to_json, weights_of
from palaestra.evaluation.session import evaluate_target
from palaestra.evaluation.targets import load_policy_target


class RayError(Exception):
    pass


class WorkerCrashedError(RayError):
    pass


class NodeDiedError(RayError):
    pass


class OutOfMemoryError(RayError):
    pass


class RayTaskError(RayError):
    def __init__(self, ip, text="OSError: No space left on device"):
        super().__init__(text)
        self.ip = ip


class Reference(int):
    """Ray's generator of a task with one response: what it yields is read with `StandIn.get`."""

    def __next__(self):
        return self


def last_response(function):
    """The function without signs of progress."""
    return lambda *words: [*function(*words)][-1]


class StandIn:
    """Ray as far as the driver knows it: tasks are carried out when somebody waits for them."""

    exceptions = SimpleNamespace(
        RayError=RayError,
        WorkerCrashedError=WorkerCrashedError,
        NodeDiedError=NodeDiedError,
        OutOfMemoryError=OutOfMemoryError,
        RayTaskError=RayTaskError,
    )

    def __init__(self, act=lambda number, play, words: play(*words), cpus=2.0):
        self.act, self.cpus, self.tasks, self.options, self.most = act, cpus, [], {}, 0
        self.ray, self.names, self.selectors = self, ["a"], []

    def nodes(self):
        """Each has all CPUs that are asked for, and no port at which it could be pinged."""
        return [
            {
                "NodeID": name,
                "NodeManagerAddress": f"10.0.0.{name}",
                "NodeManagerHostname": name,
                "Alive": True,
                "Resources": {"CPU": self.cpus},
            }
            for name in self.names
        ]

    def put(self, data):
        return data

    def remote(self, **options):
        self.options = options

        def wrap(function):
            def start(*words, label_selector=None):
                self.tasks.append((function, words))
                self.selectors.append(label_selector)
                return Reference(len(self.tasks))

            return SimpleNamespace(
                remote=start, options=lambda **given: SimpleNamespace(remote=lambda *words: start(*words, **given))
            )

        return wrap

    def wait(self, references, num_returns, timeout):
        self.most = max(self.most, len(references))
        return references[:num_returns], references[num_returns:]

    def get(self, reference):
        function, words = self.tasks[reference - 1]
        return self.act(reference, last_response(function), words)


@pytest.fixture
def drive(trained_run):
    """`drive(stand_in)` -> messages about one request of six episodes."""
    checkpoint = load_policy_target("judged:3", trained_run.root).checkpoint
    plan = make_plan("judged:3", trained_run.env, episodes=6, seed=50)

    def run(stand_in, plan=plan, also=(), cluster=None):
        asked_read, requested = os.pipe()
        answered_read, replied = os.pipe()
        request = request_to_json(make_request(checkpoint, [plan]))
        asking = [{"id": 1, "request": request, "sidecar": str(checkpoint.path), "trust_module": False}, *also]
        os.write(requested, "".join(json.dumps(one) + "\n" for one in asking).encode())
        driver = Driver(stand_in, replied, cluster)
        send = driver.send

        def say_and_stop(message):
            send(message)
            if message.get("done"):
                os.close(requested)

        driver.send = say_and_stop
        driver.run(asked_read)
        os.close(replied)
        with os.fdopen(answered_read) as responses:
            messages = [json.loads(line) for line in responses]
        os.close(asked_read)
        run.notes = [message["note"] for message in messages if "note" in message]
        return [message for message in messages if "id" in message]

    return run


def seeds_of(messages):
    return sorted(row["seed"] for message in messages for row in message.get("episodes", []))


def test_a_request_is_played_in_shares_by_tasks_of_one_processor(drive, trained_run):
    ray = StandIn()
    *parts, done = drive(ray)
    assert len(parts) == 3
    assert seeds_of(parts) == list(range(50, 56))
    assert (done["done"], done["error"]) == (True, "")
    assert ray.options == {"num_cpus": 1, "max_retries": 0, "num_returns": "streaming"}
    assert all(isinstance(word, str | bytes) for _, words in ray.tasks for word in words)
    at_home = evaluate_target("judged:3", trained_run.root, episodes=6, seed=50)
    rows = {row["seed"]: row["total_reward"] for part in parts for row in part["episodes"]}
    assert [rows[seed] for seed in range(50, 56)] == at_home.returns


@pytest.mark.parametrize("trouble", ["garbage", WorkerCrashedError(), NodeDiedError(), OutOfMemoryError()])
def test_what_goes_wrong_once_is_played_again_and_every_episode_comes_once(drive, trouble):
    def act(number, function, words):
        if number == 2:
            if isinstance(trouble, Exception):
                raise trouble
            return trouble
        return function(*words)

    *parts, done = drive(StandIn(act))
    assert seeds_of(parts) == list(range(50, 56))
    assert (done["error"], done["retries"]) == ("", 1)


def test_a_share_that_always_fails_leaves_a_partial_result_with_the_reason(drive):
    def act(number, function, words):
        return "garbage" if "50, 51" in words[0] else function(*words)

    *parts, done = drive(StandIn(act))
    assert seeds_of(parts) == [52, 53, 54, 55]
    assert done["retries"] == RETRIES
    assert "from seed 50 on failed 4 times: the response was invalid (Invalid JSON" in done["error"]


def on_node(name, reply):
    return json.dumps({**json.loads(reply), "host": f"host-{name}", "node": name})


OTHER_CODE = {"versions": ["torch 1.0 (here 2.0)"], "package": None, "modules": {}}


def placed(ray, number):
    """Ray's own scheduling: odd tasks to the first node, even ones to the second, unless that is to be avoided."""
    wanted = ray.names[number % 2]
    avoided = (ray.selectors[number - 1] or {}).get("ray.io/node-id", "")
    return ray.names[1 - number % 2] if wanted in avoided else wanted


def test_a_node_with_other_code_is_left_out_by_name_and_the_others_play_on(drive):
    def act(number, function, words):
        node = placed(ray, number)
        if node == "b":
            return json.dumps({"host": "host-b", "pid": 1, "node": "b", "code_differences": OTHER_CODE})
        return on_node(node, function(*words))

    ray = StandIn(act)
    ray.names = ["a", "b"]
    *parts, done = drive(ray)
    assert seeds_of(parts) == list(range(50, 56))
    assert (done["error"], done["retries"]) == ("", 0)
    assert drive.notes == ["Node left out: b (10.0.0.b): its code differs: torch 1.0 (here 2.0)"]
    assert ray.selectors[-1] == {"ray.io/node-id": "!in(b)"}


def test_when_every_node_has_other_code_it_is_an_error_with_the_names(drive):
    reply = json.dumps({"host": "host-a", "pid": 1, "node": "a", "code_differences": OTHER_CODE})
    (done,) = drive(StandIn(lambda number, function, words: reply))
    assert "its code differs: torch 1.0 (here 2.0)" in done["error"]
    assert (done["exit_code"], "cluster.allow_different_code=true" in done["hint"]) == (2, True)


def test_code_that_is_accepted_is_recorded_by_host(drive):
    def act(number, function, words):
        assert share_from_json(words[0]).allow_different_code
        return json.dumps({**json.loads(function(*words)), "host": "host-a", "code_differences": OTHER_CODE})

    *parts, done = drive(StandIn(act), cluster=ClusterConfig(allow_different_code=True))
    assert seeds_of(parts) == list(range(50, 56))
    assert done["code_differences"] == {"host-a": ["torch 1.0 (here 2.0)"]}


def test_a_node_on_which_everything_fails_is_avoided_and_named_once(drive):
    """A full disk, or a broken installation: it fails at once and would take all shares there are."""

    def act(number, function, words):
        node = placed(ray, number)
        if node == "b":
            raise RayTaskError("10.0.0.b")
        return on_node(node, function(*words))

    ray = StandIn(act)
    ray.names = ["a", "b"]
    *parts, done = drive(ray)
    assert seeds_of(parts) == list(range(50, 56))
    assert done["error"] == ""
    assert drive.notes == ["Node left out: b (10.0.0.b): OSError: No space left on device"]


def test_a_request_that_fails_everywhere_says_why_and_not_that_no_node_is_left(drive):
    def act(number, function, words):
        raise RayTaskError(f"10.0.0.{placed(ray, number)}", "ValueError: bad level")

    ray = StandIn(act)
    ray.names = ["a", "b"]
    *parts, done = drive(ray)
    assert parts == []
    assert "ValueError: bad level" in done["error"]


def test_shares_on_a_node_that_falls_silent_are_played_again_and_late_results_dropped(drive, monkeypatch):
    """Node b is lost while it holds shares that never end; nobody knows which, and each episode comes once."""
    lost = []

    class Monitor(driver_module.NodeMonitor):
        def update(self):
            changes = super().update()
            if ray.tasks and not lost:
                lost.append(self.node("b"))
                self._silent.add("b")
                changes.append(Change(self.node("b"), is_lost=True, reason="no response for 20 s"))
            return changes

    class Holding(StandIn):
        def wait(self, references, num_returns, timeout):
            free = [each for each in references if placed(self, each) == "a"]
            return free[:num_returns], [each for each in references if each not in free[:num_returns]]

    monkeypatch.setattr(driver_module, "NodeMonitor", Monitor)
    ray = Holding(lambda number, function, words: on_node("a", function(*words)))
    ray.names = ["a", "b"]
    *parts, done = drive(ray)
    assert seeds_of(parts) == list(range(50, 56)), "each exactly once"
    assert done["error"] == ""
    assert done["retries"] > 0
    assert drive.notes == [
        "Node left out: b (10.0.0.b): no response for 20 s. Its episodes are played elsewhere.",
    ]


class WithHungWorker(StandIn):
    """The worker of the task `hung` says that it has begun, and never anything else until `is_freed`."""

    def __init__(self, monkeypatch, hung):
        super().__init__()
        self.hung, self.begun, self.cancelled, self.now, self.is_freed = hung, set(), [], 0.0, True
        self.names = ["a", "b"]
        monkeypatch.setattr(driver_module, "monotonic", lambda: self.now)

    def wait(self, references, num_returns, timeout):
        self.now += 0.5
        ready = [each for each in references if each not in self.begun or (each in self.cancelled and self.is_freed)]
        return super().wait(ready, num_returns, timeout)

    def get(self, reference):
        if reference in self.cancelled:
            raise WorkerCrashedError
        if self.hung(reference) and reference not in self.begun:
            self.begun.add(reference)
            return json.dumps({"host": "host-b", "pid": 4711, "node": "b", "finished": 0})
        return on_node("a", super().get(reference))

    def cancel(self, reference, force):
        assert force
        self.cancelled.append(reference)


@pytest.mark.parametrize("is_freed", [True, False])
def test_a_share_of_a_hung_worker_is_played_by_another(drive, monkeypatch, is_freed):
    ray = WithHungWorker(monkeypatch, lambda number: number == 2)
    ray.is_freed = is_freed  # False: the process is stopped, and Ray cannot end it
    *parts, done = drive(ray, cluster=ClusterConfig(share_timeout=30))
    assert seeds_of(parts) == list(range(50, 56)), "each exactly once"
    assert (done["error"], done["retries"], ray.cancelled) == ("", 1, [2])
    (note,) = drive.notes
    assert note.startswith("Worker left out: process 4711 on b (10.0.0.b): ")
    assert note.endswith("no episode of 'default' ended within 30 s (cluster.share_timeout).")


def test_episodes_that_hang_every_worker_leave_a_partial_result(drive, monkeypatch):
    ray = WithHungWorker(monkeypatch, lambda number: share_from_json(ray.tasks[number - 1][1][0]).plan.seeds == (50,))
    *parts, done = drive(ray, cluster=ClusterConfig(share_timeout=30))
    assert seeds_of(parts) == [51, 52, 53, 54, 55]
    assert "from seed 50 on failed 4 times: no episode of 'default' ended within 30 s" in done["error"]
    assert "Node left out: b (10.0.0.b): no episode of 'default'" in "".join(drive.notes)


def test_progress_postpones_the_deadline(drive, monkeypatch, trained_run):
    """A worker that says every 20 s that another episode has ended keeps its share."""

    class Slow(WithHungWorker):
        signs = 0

        def get(self, reference):
            self.signs += 1
            self.now += 20.0
            if self.signs < 6:
                return json.dumps({"host": "host-b", "pid": 4711, "node": "b", "finished": self.signs})
            return on_node("b", StandIn.get(self, reference))

    ray = Slow(monkeypatch, lambda number: False)
    plan = make_plan("judged:3", trained_run.env, episodes=1, seed=50)
    *parts, done = drive(ray, plan, cluster=ClusterConfig(share_timeout=30))
    assert (seeds_of(parts), ray.signs) == ([50], 6)
    assert (done["retries"], drive.notes) == (0, [])


def test_a_checkpoint_that_cannot_be_read_is_reported(drive, trained_run):
    (trained_run.directory.checkpoints / "model_0003.safetensors").unlink()
    (done,) = drive(StandIn())
    assert "model_0003.safetensors is missing" in done["error"]


def test_ray_is_given_no_more_shares_than_keep_it_busy(drive, trained_run):
    row = {"total_reward": 1.0, "length": 1, "terminated": True, "env_index": 0, "env_step": 0, "extras": {}}

    def act(number, function, words):
        seeds = share_from_json(words[0]).plan.seeds
        return json.dumps(
            {"host": "x", "pid": 1, "seconds": 0.1, "episodes": [{"seed": seed, **row} for seed in seeds]}
        )

    ray = StandIn(act)
    plan = make_plan("judged:3", trained_run.env, episodes=200, seed=50)
    *parts, _ = drive(ray, plan)
    assert seeds_of(parts) == list(range(50, 250))
    assert ray.most <= driver_module.PER_PROCESSOR * 2


def test_a_request_that_nobody_wants_any_more_is_dropped(drive):
    messages = drive(StandIn(), also=[{"id": 1, "drop": True}, {"id": 9, "drop": True}])
    assert seeds_of(messages) == []
    assert messages[-1]["error"]


def test_a_cluster_without_processors_is_given_up_in_time(drive, monkeypatch):
    monkeypatch.setattr(driver_module, "NO_PROCESSOR_SECONDS", -1.0)
    (done,) = drive(StandIn(cpus=0.0))
    assert "no processor" in done["error"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (WorkerCrashedError("long story"), "their worker was lost."),
        (OutOfMemoryError("long story"), "their worker ran out of memory."),
        (
            RayError("Traceback\n  File x\nModuleNotFoundError: No module named 'palaestra'"),
            "No module named 'palaestra'",
        ),
    ],
)
def test_errors_of_ray_are_one_line(error, words):
    text = describe_ray_error(error, StandIn.exceptions)
    assert words in text
    assert "\n" not in text


def test_torch_is_loaded_by_the_worker_and_not_by_who_speaks_with_ray():
    code = "import sys, palaestra.cluster.evaluation.driver; print('torch' in sys.modules, 'gymnasium' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "False"]
    assert play.__module__ == "palaestra.cluster.evaluation.driver"


class Store:
    """As Ray's: everything that was put, in order."""

    def __init__(self):
        self.held = []

    def put(self, data):
        self.held.append(data)
        return f"reference {len(self.held)}"


@pytest.fixture
def saved(trained_run):
    return trained_run.save(epoch=4, seed=1)


def test_weights_are_put_once_for_each_sha256(trained_run, saved):
    store = Store()
    deliveries = WeightStore(store.put)
    first = deliveries.take(saved.path, weights_of(saved))
    again = deliveries.take(saved.path, weights_of(saved))
    twin = trained_run.save(epoch=5, seed=1)  # the same weights in another checkpoint
    of_twin = deliveries.take(twin.path, weights_of(twin))
    assert first == again
    assert of_twin.weights == first.weights
    assert of_twin.sidecar != first.sidecar
    assert [hashlib.sha256(data).hexdigest() for data in store.held] == [weights_of(saved)]


def test_what_nobody_plays_is_let_go_when_there_is_no_room(trained_run, saved):
    store = Store()
    deliveries = WeightStore(store.put, max_idle_bytes=0)
    played = deliveries.take(saved.path, weights_of(saved))
    other = trained_run.save(epoch=5, seed=2)
    idle = deliveries.take(other.path, weights_of(other))
    deliveries.release(idle)
    assert deliveries.take(saved.path, weights_of(saved)).weights == played.weights
    assert deliveries.take(other.path, weights_of(other)).weights != idle.weights


def test_the_sidecar_that_travels_names_the_weights_alone_and_no_score(trained_run, saved):
    assert trained_run.save(epoch=4, seed=1).path == saved.path
    sidecar, weights, policy = packed(saved.path, weights_of(saved))
    read = decode(sidecar, "what travels")
    assert set(read.files) == {model_name(4)}
    assert trainer_state_name(4) not in read.files
    assert (read.score, read.metrics) == (None, {})
    assert hashlib.sha256(weights).hexdigest() == weights_of(saved)
    assert policy == saved.policy


def test_different_weights_are_not_sent(saved):
    with pytest.raises(NotFound, match="different weights"):
        packed(saved.path, "0" * 64)


def test_a_damaged_checkpoint_is_not_sent(saved):
    path = saved.path.with_suffix(".safetensors")
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(DamagedFile, match="sha256"):
        packed(saved.path, weights_of(saved))
