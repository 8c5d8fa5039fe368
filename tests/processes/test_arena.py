"""Arena through the command line: trained, stopped, killed, continued bit for bit on one rank and on two, judged."""

import json
import random
import signal

import pytest

pytestmark = pytest.mark.slow

EPOCHS = 16
STATIONS = "mine: {count: 1}, generator: {count: 1}, altar: {count: 1}"
SMALL = f"width: 7, height: 7, view: 5, {STATIONS}, max_steps: 13"
TASKS = "{plain: {}, shaped: {kwargs: {rewards: {ore: 0.1}}}, long: {kwargs: {max_steps: 21}}}"


def words(name: str, rows: int = 8, agents: int = 2) -> list[str]:
    """Episodes end in the middle of rollouts, worlds apart from each other."""
    return [
        "train",
        "arena.tiny",
        f"run={name}",
        f"env.kwargs={{agents: {agents}, {SMALL}}}",
        f"curriculum.tasks={TASKS}",
        "curriculum.kind=learning_progress",
        "policy.settings.size=16",
        f"total_steps={EPOCHS * 8 * 8}",
        f"ppo.env_count={rows}",
        "ppo.horizon=8",
        f"ppo.minibatch_size={rows * 4}",
        "checkpoints.save_interval=1",
        "loggers.tensorboard=false",
        "--quiet",
    ]


@pytest.fixture(scope="module")
def uninterrupted(server):
    trainer = server.start(*words("uninterrupted"))
    assert trainer.wait() == 0, trainer.err.read_text()
    return server.run("uninterrupted")


@pytest.mark.full
@pytest.mark.fault("R1")
def test_killed_again_and_again_it_ends_with_the_same_bytes(server, uninterrupted, differences):
    tally = server.kill_again_and_again(words("killed"), "killed", 4, random.Random(3))
    assert (tally.kills, tally.unreadable, tally.lost) == (4, 0, 0)
    assert differences(server.run("killed"), uninterrupted) == []


def test_stopped_with_control_c_it_goes_on_bit_for_bit(server, uninterrupted, differences, wait_until):
    trainer = server.start(*words("stopped"))
    wait_until(lambda: len(server.saved_epochs("stopped")) >= 3, "three checkpoints")
    trainer.send(signal.SIGINT)
    assert trainer.wait() == 130, trainer.err.read_text()
    assert server.start(*words("stopped")).wait() == 0
    assert differences(server.run("stopped"), uninterrupted) == []


@pytest.mark.full
@pytest.mark.fault("R1", "D1")
def test_two_ranks_that_are_killed_go_on_bit_for_bit(server, together, differences, wait_until):
    for trainer in together(*words("two", rows=4)):
        assert trainer.wait() == 0, trainer.err.read_text()
    ranks = together(*words("two-killed", rows=4))
    wait_until(lambda: len(server.saved_epochs("two-killed")) >= 3, "three checkpoints")
    for trainer in ranks:
        trainer.send(signal.SIGKILL)
        trainer.wait()
    for trainer in together(*words("two-killed", rows=4)):
        assert trainer.wait() == 0, trainer.err.read_text()
    assert differences(server.run("two-killed"), server.run("two")) == []


def test_it_is_evaluated_the_same_twice_and_hearts_are_counted(server, uninterrupted):
    evaluated = [server("eval", "uninterrupted", "--episodes", "3", "--json") for _ in range(2)]
    assert [done.code for done in evaluated] == [0, 0], evaluated[0].err
    reports = [json.loads(done.out) for done in evaluated]
    assert reports[0]["returns"] == reports[1]["returns"]
    written = [json.loads(path.read_text()) for path in uninterrupted.evaluations.glob("*.json")]
    for simulation in ("plain", "wide", "walls"):
        first, second = (each["rows"] for each in written if each["plan"]["simulation"] == simulation)
        assert first == second
        assert all({"heart", "moves"} <= row["extras"].keys() for row in first)
    assert len(written) == 6


def test_a_part_of_a_world_is_refused_with_the_numbers(server):
    done = server(*words("odd", rows=8, agents=3))
    assert done.code == 2
    assert "ppo.env_count=8 is not a multiple of the 3 agents" in done.err
    assert "ppo.env_count=6 or ppo.env_count=9" in done.err
    assert server.run("odd") is None
