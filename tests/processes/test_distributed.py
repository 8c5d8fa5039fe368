"""Two real processes that train together, joined as under torchrun: equal, exact, and ending together."""

import json
import random
import re
import signal
import socket
import time
from pathlib import Path

import pytest

from palaestra.core.run import RunState
from palaestra.runner.loop import WINDOW
from palaestra.runs.journal import read_journal
from palaestra.runs.metrics.reader import MetricsReader
from palaestra.runs.status import read_record

pytestmark = pytest.mark.slow

EPOCHS = 30  # so many that a signal sent after the third is never late
BATCH = 2 * 2 * 16  # ranks, environments, steps
SECONDS = 60.0  # on a machine that is busy with other things; who waits for the time-out takes 300
SETTINGS = [
    "train",
    "cartpole",
    f"total_steps={EPOCHS * BATCH}",
    "seed=3",
    "ppo.env_count=2",
    "ppo.horizon=16",
    "ppo.minibatch_size=16",
    "ppo.update_epochs=2",
    "ppo.clip={kind: linear, start: 0.2, end: 0.1}",
    "checkpoints.save_interval=1",
    "policy.normalize_observations=true",
    "policy.normalize_returns=true",
    "loggers.tensorboard=false",
    "--quiet",
]


def words(name: str, *more: str) -> list[str]:
    """`more` replaces what SETTINGS says of the same key."""
    replaced = {word.partition("=")[0] for word in more}
    return [*(word for word in SETTINGS if word.partition("=")[0] not in replaced), f"run={name}", *more]


def faulty(how: str, rank: int = 1, at: int = 60) -> list[str]:
    return ["env.id=faulty_env:Faulty-v0", f"env.kwargs={{how: {how}, at: {at}, rank: {rank}}}"]


@pytest.fixture(scope="module")
def uninterrupted(server, together):
    ranks = together(*words("uninterrupted"))
    assert [rank.wait() for rank in ranks] == [0, 0], [rank.err.read_text() for rank in ranks]
    return server.run("uninterrupted")


@pytest.fixture
def at_work(server, together, wait_until):
    """A group that has saved three checkpoints and is not near its end."""

    def start(name, *more):
        ranks = together(*words(name, "total_steps=1e6", *more))
        wait_until(lambda: len(server.saved_epochs(name)) >= 3, "three checkpoints")
        return ranks

    return start


def end_of(ranks):
    began = time.monotonic()
    ends = [(rank.wait(), round(time.monotonic() - began, 1)) for rank in ranks]
    assert ends[-1][1] < SECONDS, (ends, [rank.err.read_text()[-500:] for rank in ranks])
    return [code for code, _ in ends]


def end_after_fault(ranks, faulty=1):
    """Exit codes, and the seconds from the first fault until the last of them was gone."""
    codes = [rank.wait() for rank in ranks]
    over = time.monotonic()
    began = float(re.findall(r"^fault at (\S+)$", ranks[faulty].err.read_text(), re.MULTILINE)[0])
    assert over - began < SECONDS, [rank.err.read_text()[-500:] for rank in ranks]
    return codes, over - began


def last_digests(directory):
    texts = [directory.log_file(rank).read_text() for rank in (0, 1)]
    return [re.findall(r"Ended at epoch (\d+) with weights sha256=(\w{64})", text)[-1] for text in texts]


@pytest.mark.full
def test_all_ranks_end_with_the_same_weights_with_schedules_on(uninterrupted):
    leader, follower = last_digests(uninterrupted)
    assert leader == follower
    assert leader[0] == str(EPOCHS)


def test_steps_and_episodes_are_counted_over_all_ranks(uninterrupted):
    record = read_record(uninterrupted)
    assert (record.state, record.epoch, record.agent_step) == (RunState.FINISHED, EPOCHS, EPOCHS * BATCH)
    with MetricsReader(uninterrupted.metrics_file) as reader:
        episodes = reader.episodes()
    assert {episode.env_index for episode in episodes} == {0, 1, 2, 3}
    by_rank = [sum(episode.length for episode in episodes if episode.env_index // 2 == rank) for rank in (0, 1)]
    for played in by_rank:  # half of the steps each, less the episodes that had not ended
        assert 0.5 * EPOCHS * BATCH / 2 < played <= EPOCHS * BATCH / 2


def test_a_finished_run_requested_again_is_instructed_to_all(together, uninterrupted):
    before = read_journal(uninterrupted.journal_file)
    assert end_of(together(*words("uninterrupted"))) == [0, 0]
    assert read_journal(uninterrupted.journal_file) == before


def test_only_the_leader_writes_and_says_anything(server, together):
    ranks = together(*words("loud", "--json", f"total_steps={BATCH}"))
    assert end_of(ranks) == [0, 0]
    assert json.loads(ranks[0].out.read_text())["agent_step"] == BATCH
    assert (ranks[1].out.read_text(), ranks[1].err.read_text()) == ("", "")
    journal = read_journal(server.run("loud").journal_file)
    assert {entry.rank for entry in journal} == {0}
    assert next(entry for entry in journal if entry.event == "run.started").data["world_size"] == 2


@pytest.mark.fault("D1")
def test_killed_at_random_and_continued_it_ends_with_the_same_bytes(
    server, together, uninterrupted, differences, wait_until
):
    chance = random.Random(5)
    for kill in range(3):
        ranks = together(*words("killed"))
        goal = len(server.saved_epochs("killed")) + chance.choice([1, 2, 3])
        wait_until(lambda: len(server.saved_epochs("killed")) >= goal, f"{goal} checkpoints")  # noqa: B023
        time.sleep(chance.uniform(0.0, 0.05))  # not a condition: any instant will do
        ranks[kill % 2].send(signal.SIGKILL)
        codes = end_of(ranks)
        assert codes[kill % 2] == -signal.SIGKILL
        assert codes[1 - kill % 2] == 1
    assert end_of(together(*words("killed"))) == [0, 0]
    assert differences(server.run("killed"), uninterrupted) == []
    assert last_digests(server.run("killed")) == last_digests(uninterrupted)


@pytest.mark.fault("D6")
@pytest.mark.parametrize("asked", [pytest.param(0, marks=pytest.mark.full), 1])
def test_a_signal_to_one_rank_stops_all_at_the_same_update(
    server, together, uninterrupted, differences, wait_until, asked
):
    name = f"stopped-{asked}"
    ranks = together(*words(name))
    wait_until(lambda: len(server.saved_epochs(name)) >= 3, "three checkpoints")
    ranks[asked].send(signal.SIGTERM)
    assert end_of(ranks) == [143, 143], [rank.err.read_text() for rank in ranks]
    directory = server.run(name)
    record = read_record(directory)
    assert (record.state, record.exit_code) == (RunState.CANCELLED, 143)
    assert 3 <= record.epoch < EPOCHS
    leader, follower = last_digests(directory)
    assert leader == follower
    assert leader[0] == str(record.epoch)
    assert end_of(together(*words(name))) == [0, 0]
    assert differences(directory, uninterrupted) == []


@pytest.mark.fault("D8")
@pytest.mark.parametrize(
    ("how", "cause"),
    [
        ("raise", r"Rank 1 failed first: Environment 0 \(seed \d+\) raised ValueError .*the cart fell off"),
        ("nan", r"Rank 1 failed first: Update \d was stopped before its step: .*reward that is not finite"),
        ("exit", r"Rank 1 failed first: os._exit\(7\) was called in environment 0 "),
    ],
)
def test_a_fault_on_one_rank_ends_all_and_the_leader_names_the_first_cause(server, together, figure, how, cause):
    name = f"faulty-{how}"
    ranks = together(*words(name, *faulty(how)))
    codes, seconds = end_after_fault(ranks)
    figure(f"seconds until all have ended, {how}", seconds)
    assert codes == [1, 1]
    record = read_record(server.run(name))
    assert (record.state, record.exit_code) == (RunState.FAILED, 1)
    assert re.search(cause, record.failure), record.failure


@pytest.mark.fault("D8")
def test_a_fault_before_the_first_step_leaves_no_run_behind(server, together):
    ranks = together(*words("never", *faulty("raise at once")))
    assert end_after_fault(ranks)[0][0] == 1
    assert "the cart has no wheels" in ranks[0].err.read_text()
    assert server.run("never") is None


@pytest.mark.fault("D1")
@pytest.mark.parametrize("victim", [pytest.param(0, marks=pytest.mark.full), 1])
def test_a_killed_rank_takes_the_other_with_it_and_is_named(server, at_work, victim):
    ranks = at_work(f"victim-{victim}")
    ranks[victim].send(signal.SIGKILL)
    codes = end_of(ranks)
    assert (codes[victim], codes[1 - victim]) == (-signal.SIGKILL, 1)
    # whoever started them here may have asked for the victim's end before the other rank could read it
    named = re.compile(rf"Rank {victim} (was ended by SIGKILL|exited without reporting an error)\.")
    assert named.search(ranks[1 - victim].err.read_text())
    assert named.fullmatch(read_record(server.run(f"victim-{victim}")).failure)


@pytest.mark.fault("D3")
@pytest.mark.chaos
def test_a_rank_that_hangs_is_noticed_after_the_time_out(at_work):
    ranks = at_work("hanging", "distributed.timeout_seconds=4")
    ranks[1].send(signal.SIGSTOP)
    began = time.monotonic()
    assert ranks[0].wait() == 1
    assert 3 < time.monotonic() - began < 4 + SECONDS
    assert "did not answer within 4 s" in ranks[0].err.read_text()
    ranks[1].send(signal.SIGKILL)
    ranks[1].wait()


@pytest.mark.fault("D2")
@pytest.mark.parametrize("slow", [pytest.param(0, marks=pytest.mark.full), 1])
def test_a_slow_rank_is_named_once_and_waited_for(server, together, slow, figure):
    name, epochs = f"slow-{slow}", WINDOW + 2
    ranks = together(*words(name, *faulty("slow", slow, at=0), f"total_steps={epochs * BATCH}"))
    assert end_of(ranks) == [0, 0], [rank.err.read_text() for rank in ranks]
    directory = server.run(name)
    (reports,) = [entry for entry in read_journal(directory.journal_file) if entry.event == "rank.slow"]
    assert (reports.data["rank"], reports.data["epoch"], reports.level) == (slow, WINDOW, "warning")
    asleep = 2 * 16 * 0.01  # environments, steps, seconds of each
    assert reports.data["others_seconds"] + 0.05 < asleep <= reports.data["seconds"]
    assert ranks[0].err.read_text().count(f"Rank {slow} is slow") == 1
    leader, follower = last_digests(directory)
    assert leader == follower == (str(epochs), leader[1])
    figure("seconds of the slow rank", reports.data["seconds"])
    figure("seconds of the other", reports.data["others_seconds"])


@pytest.mark.fault("R5")
def test_another_number_of_ranks_is_refused_with_both_numbers(server, together, uninterrupted):
    more = f"total_steps={2 * EPOCHS * BATCH}"
    alone = server(*words("uninterrupted", more, "--override", "total_steps"))
    assert alone.code == 2
    assert "was trained by 2 processes; 1 process cannot continue it" in alone.err
    assert "--nproc 2" in alone.err
    three = together(*words("uninterrupted", more, "--override", "total_steps"), count=3)
    assert end_of(three)[0] == 2
    assert "was trained by 2 processes; 3 processes cannot continue it" in three[0].err.read_text()
    assert read_record(uninterrupted).state is RunState.FINISHED


def test_ranks_with_other_settings_are_refused(together):
    ranks = together(*words("quarrel"), own={1: ["ppo.gamma=0.5"]})
    assert end_of(ranks)[0] == 2
    reports = ranks[0].err.read_text()
    assert "Rank 1 has a different configuration than rank 0" in reports
    assert re.search(r"ppo\.gamma.*0\.99.*0\.5", reports)


def test_a_rank_without_a_world_is_refused(server):
    lonely = server.start(*words("lonely"), variables={"RANK": "1"})
    assert lonely.wait() == 2
    assert "RANK=1 is set, but LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT is not" in lonely.err.read_text()


@pytest.mark.fault("D7")
def test_a_port_that_is_taken_is_named(together):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ranks = together(*words("taken", "distributed.timeout_seconds=3"), port=port)
        assert ranks[0].wait() == 1
        ranks[1].send(signal.SIGKILL)  # it waits for a word from whoever has the port; torchrun would end it
        ranks[1].wait()
    assert f"could not join the others at 127.0.0.1:{port}" in ranks[0].err.read_text()


@pytest.mark.full
def test_an_evaluation_beside_two_ranks_equals_that_of_one_process(server, together):
    settings = ["evaluate_interval=2", "evaluation.episodes=5", f"total_steps={2 * BATCH}"]
    assert end_of(together(*words("judged", *settings))) == [0, 0]
    alone = server("eval", "judged:2", "--episodes", "5", "--json")
    assert alone.code == 0, alone.err
    beside, single = (
        json.loads((Path(server.run("judged").evaluations) / f"2-{number}.json").read_text())["rows"]
        for number in (1, 2)
    )
    assert [row["seed"] for row in beside] == list(range(1_000_000, 1_000_005))
    assert beside == single
