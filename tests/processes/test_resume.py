"""A run that is killed and continued ends with the same bytes as one that never stopped."""

import random
import signal

import pytest

from palaestra.checkpoints.manager import CheckpointManager
from palaestra.core.errors import PalaestraError
from palaestra.core.run import RunState
from palaestra.runs.journal import read_journal
from palaestra.runs.metrics.reader import MetricsReader
from palaestra.runs.status import read_record

pytestmark = pytest.mark.slow

EPOCHS = 32  # far more than a series of kills below leaves time for
SETTINGS = [
    "train",
    "cartpole",
    f"total_steps={EPOCHS * 64}",
    "seed=3",
    "ppo.env_count=2",
    "ppo.minibatch_size=32",
    "ppo.update_epochs=2",
    "checkpoints.save_interval=1",
    "policy.normalize_observations=true",
    "policy.normalize_returns=true",
    "loggers.tensorboard=false",
    "--quiet",
]


def words(name: str) -> list[str]:
    return [*SETTINGS, f"run={name}"]


def events(directory) -> list[str]:
    return [entry.event for entry in read_journal(directory.journal_file)]


def seen_at_work(server, name: str) -> bool:
    return len(server.saved_epochs(name)) >= 3


@pytest.fixture(scope="module")
def uninterrupted(server):
    """The run to compare with: never stopped."""
    trainer = server.start(*words("uninterrupted"))
    assert trainer.wait() == 0, trainer.err.read_text()
    return server.run("uninterrupted")


def test_a_process_started_from_the_shell_does_the_same_as_a_forked_one(palaestra, uninterrupted, differences):
    """So that what the forked trainers below show holds for the command."""
    done = palaestra(*words("from-shell"))
    assert done.code == 0, done.err
    assert differences(palaestra.run("from-shell"), uninterrupted) == []


@pytest.mark.fault("R1")
def test_killed_eight_times_it_ends_with_the_same_bytes(server, uninterrupted, differences, figure, chaos_seed):
    tally = server.kill_again_and_again(words("killed"), "killed", 8, random.Random(8 + chaos_seed))
    assert (tally.kills, tally.unreadable, tally.lost) == (8, 0, 0)
    assert differences(server.run("killed"), uninterrupted) == []
    figure("kills of training", tally.kills)
    after_a_checkpoint = 4 if chaos_seed else 6  # most of ours; another seed may draw more of them before the first
    assert events(server.run("killed")).count("run.resumed") >= after_a_checkpoint


@pytest.mark.fault("R1")
@pytest.mark.chaos
@pytest.mark.timeout(1800)
def test_of_a_hundred_kills_nothing_is_unreadable_nothing_lost_and_every_run_exact(
    server, uninterrupted, differences, figure, chaos_seed
):
    chance = random.Random(100 + chaos_seed)
    kills = mid_save = unreadable = lost = exact = runs = 0
    while kills < 100:
        name = f"chaos-{runs}"
        tally = server.kill_again_and_again(words(name), name, 10, chance)
        runs, kills, mid_save = runs + 1, kills + tally.kills, mid_save + tally.mid_save
        unreadable, lost = unreadable + tally.unreadable, lost + tally.lost
        exact += differences(server.run(name), uninterrupted) == []
    figure("kills of training", kills)
    figure("of them in mid-save", mid_save)
    figure(f"runs exact of {runs}", exact)
    assert (unreadable, lost, exact) == (0, 0, runs)
    assert mid_save >= 5


@pytest.mark.fault("R3")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGUSR1, 143)], ids=str
)
def test_a_polite_signal_saves_and_the_run_goes_on_bit_for_bit(
    server, uninterrupted, differences, wait_until, number, code
):
    name = f"stopped-{number.name.lower()}"
    trainer = server.start(*words(name))
    wait_until(lambda: seen_at_work(server, name), "three checkpoints")
    trainer.send(number)
    assert trainer.wait() == code, trainer.err.read_text()
    directory = server.run(name)
    record = read_record(directory)
    assert (record.state, record.exit_code) == (RunState.CANCELLED, code)
    assert 3 <= record.epoch < EPOCHS
    assert CheckpointManager(directory).list_all_checkpoints()[-1].epoch == record.epoch
    assert events(directory)[-1] == "run.cancelled"
    assert server.start(*words(name)).wait() == 0
    assert differences(directory, uninterrupted) == []


@pytest.mark.fault("R3")
def test_a_second_signal_stops_at_once_and_the_run_goes_on_bit_for_bit(server, uninterrupted, differences, wait_until):
    trainer = server.start(*words("twice"))
    wait_until(lambda: seen_at_work(server, "twice"), "three checkpoints")
    trainer.send(signal.SIGINT, signal.SIGTERM)
    assert trainer.wait() == 143, trainer.err.read_text()
    directory = server.run("twice")
    last = read_journal(directory.journal_file)[-1]
    assert (last.event, "stopped at once" in last.data["reason"]) == ("run.cancelled", True)
    assert read_record(directory).state is RunState.CANCELLED
    assert "Traceback" not in trainer.err.read_text()
    assert server.start(*words("twice")).wait() == 0
    assert differences(directory, uninterrupted) == []


@pytest.mark.fault("R2")
def test_a_normaliser_that_is_left_out_is_observed_by_the_comparison(server, uninterrupted, differences):
    """The comparison above could not see anything if it did not see this."""
    server.kill_again_and_again(words("forgetful"), "forgetful", 2, random.Random(4), "normaliser")
    assert "weights" in differences(server.run("forgetful"), uninterrupted)


@pytest.mark.fault("R2")
def test_metrics_that_are_not_taken_back_are_observed_by_the_comparison(server, uninterrupted, differences, wait_until):
    """Without checkpoints on the way, whatever a killed session wrote is ahead of what the next one goes on from."""
    unsaved = [word.replace("save_interval=1", "save_interval=0") for word in words("doubled")]
    trainer = server.start(*unsaved, plant="rewind")
    wait_until(lambda: episodes_of(server.run("doubled")), "episodes in the metrics")
    trainer.send(signal.SIGKILL)
    assert trainer.wait() == -signal.SIGKILL, trainer.err.read_text()
    last = server.start(*unsaved, plant="rewind")
    assert last.wait() == 0, last.err.read_text()
    assert differences(server.run("doubled"), uninterrupted) == ["metrics"]


def episodes_of(directory) -> int:
    """How many the metrics hold; 0 as long as there are none to be read."""
    if directory is None:
        return 0
    try:
        with MetricsReader(directory.metrics_file) as reader:
            return len(reader.episodes())
    except PalaestraError:  # it is only just being made
        return 0
