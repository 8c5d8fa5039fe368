"""Kill -9, continued until done, for each way to train: the same bytes as the run that was never stopped."""

import random
import re
import signal
import time

import pytest

from palaestra.runs.journal import read_journal

pytestmark = pytest.mark.slow

EPOCHS = 24
RUNS, KILLS = 6, 4  # of each variety at the published size: 30 runs and 120 kills in all
LSTM = """
schema_version: 1
summary: a small LSTM
nodes:
  input:  {type: vector, source: observation}
  memory: {type: lstm, source: input, size: 16}
  action: {type: action_head, source: memory}
  value:  {type: value_head, source: memory}
"""
ARENA = (
    "{agents: 2, width: 7, height: 7, view: 5, max_steps: 13,"
    " mine: {count: 1}, generator: {count: 1}, altar: {count: 1}}"
)
COMMON = [
    f"total_steps={EPOCHS * 64}",
    "seed=3",
    "checkpoints.save_interval=1",
    "loggers.tensorboard=false",
    "--quiet",
]
NORMALIZED = ["policy.normalize_observations=true", "policy.normalize_returns=true"]
PPO = ["ppo.horizon=16", "ppo.minibatch_size=32", "ppo.update_epochs=2"]
CART = ["cartpole", "ppo.env_count=4", *PPO, *NORMALIZED]
PQN = [
    *["cartpole", "algorithm=pqn", "engine=torch", "policy.normalize_observations=true", "policy.settings.hidden=[16]"],
    *["pqn.env_count=4", "pqn.horizon=16", "pqn.minibatch_size=32", "pqn.update_epochs=2"],
]
VARIETIES = {
    "mlp": [*CART, "engine=torch"],
    "native engine": [*CART, "engine=native"],
    "lstm": [*CART, "engine=torch", "ppo.segment_length=8"],
    "pqn": PQN,
    "arena": [
        *["arena.tiny", "engine=torch", f"env.kwargs={ARENA}", "policy.settings.size=16"],
        *["ppo.env_count=8", "ppo.horizon=8", "ppo.minibatch_size=32", "ppo.update_epochs=2"],
        "policy.normalize_returns=true",
    ],
    # The other may be killed before they have met, and there is no launcher here to end who then waits.
    "two ranks": [
        *[*CART, "engine=torch", "ppo.env_count=2", "ppo.minibatch_size=16"],
        "distributed.timeout_seconds=20",
    ],
    "pqn two ranks": [*PQN, "pqn.env_count=2", "pqn.minibatch_size=16", "distributed.timeout_seconds=20"],
}
RANKS = {"two ranks": 2, "pqn two ranks": 2}


@pytest.fixture
def start(server, together, tmp_path):
    """The processes of one session of a run."""
    (tmp_path / "small_lstm.yaml").write_text(LSTM)

    def begin(variety: str, name: str):
        own = VARIETIES[variety] + ([f"policy.graph={tmp_path / 'small_lstm.yaml'}"] if variety == "lstm" else [])
        keys = {word.partition("=")[0]: word for word in own}  # the later one of two counts
        arguments = ["train", *keys.values(), *COMMON, f"run={name}"]
        return together(*arguments) if variety in RANKS else [server.start(*arguments)]

    return begin


def to_its_end(processes):
    codes = [process.wait() for process in processes]
    assert codes == [0] * len(processes), [process.err.read_text() for process in processes]


@pytest.fixture
def killed_and_continued(server, start, wait_until):
    """Kill one of its processes at any instant, `kills` times, then let the run come to its end."""

    def kill(variety: str, name: str, kills: int, chance: random.Random):
        for _ in range(kills):
            processes = start(variety, name)
            goal = len(server.saved_epochs(name)) + chance.choice([0, 1, 2, 3])
            wait_until(
                lambda: len(server.saved_epochs(name)) >= goal or processes[0].is_over(),  # noqa: B023
                f"{goal} checkpoints",
            )
            time.sleep(chance.uniform(0.0, 0.05))  # not a condition: any instant will do
            victim = chance.choice(processes)
            victim.send(signal.SIGKILL)
            codes = {process: process.wait() for process in processes}
            assert codes[victim] == -signal.SIGKILL, victim.err.read_text()
        to_its_end(start(variety, name))
        return server.run(name)

    return kill


def engines_of(directory) -> set[str]:
    """The first word of what every session of a run said of its engine."""
    begun = [
        entry.data for entry in read_journal(directory.journal_file) if entry.event in {"run.started", "run.resumed"}
    ]
    return {re.split(r"\W", data["engine"])[0] for data in begun}


@pytest.mark.fault("R1")
@pytest.mark.parametrize(
    "variety",
    [
        name if name == "native engine" else pytest.param(name, marks=pytest.mark.full)  # the others' samples stand
        for name in VARIETIES  # in test_resume.py, test_resume_with_everything.py and test_arena.py
    ],
)
def test_killed_three_times_it_ends_with_the_same_bytes(
    start, server, killed_and_continued, differences, figure, chaos_seed, variety
):
    word = variety.replace(" ", "-")
    to_its_end(start(variety, f"whole-{word}"))
    killed = killed_and_continued(variety, f"killed-{word}", 3, random.Random(3 + chaos_seed))
    assert differences(killed, server.run(f"whole-{word}")) == []
    assert engines_of(killed) == {"native" if variety == "native engine" else "torch"}
    figure(f"kills, {variety}", 3)


@pytest.mark.fault("R1")
@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("variety", VARIETIES)
def test_of_many_kills_every_run_of_every_variety_is_exact(
    start, server, killed_and_continued, differences, figure, chaos_seed, variety
):
    word = variety.replace(" ", "-")
    to_its_end(start(variety, f"published-{word}"))
    whole, chance = server.run(f"published-{word}"), random.Random(f"{variety} {chaos_seed}")
    found = {
        number: differences(killed_and_continued(variety, f"published-{word}-{number}", KILLS, chance), whole)
        for number in range(RUNS)
    }
    figure(f"kills, {variety}", RUNS * KILLS)
    figure(f"runs exact of {RUNS}, {variety}", sum(each == [] for each in found.values()))
    assert found == {number: [] for number in range(RUNS)}
