"""Memory, normalisers, a curriculum and schedules at once: killed -9 wherever it may be, the run ends the same."""

import itertools
import random
import re
import signal
from dataclasses import dataclass
from math import isnan

import pytest

from palaestra.checkpoints.manager import CheckpointManager
from palaestra.runs.journal import read_journal
from palaestra.runs.metrics.reader import MetricsReader

pytestmark = pytest.mark.slow

GRAPH = """
schema_version: 1
summary: a small LSTM
nodes:
  input:  {type: vector, source: observation}
  hidden: {type: mlp, source: input, hidden: [16], activation: tanh}
  memory: {type: lstm, source: hidden, size: 16}
  action: {type: action_head, source: memory}
  value:  {type: value_head, source: memory}
"""
EPOCHS = 36
HORIZON, ENVS, GRADIENT_STEPS, SAVE_INTERVAL, SYNCS_PER_SAVE = 16, 2, 4, 3, 6
# Kills come after at most this many of a session's iterations: more than a save takes, so that every session that is
# not killed in its first save gets further, and so few that the end is far away.
MOST_EPOCHS = 5


@dataclass(frozen=True)
class Doom:
    """Where in its own progress a session ends; drawn, so that nobody chose the comfortable places."""

    rank: int
    point: str
    count: int

    def __str__(self) -> str:
        return f"{self.rank} {self.point} {self.count}"


def draw_doom(chance: random.Random, ranks: int) -> Doom:
    rank = chance.randrange(ranks)
    most = {"play": MOST_EPOCHS * HORIZON * ENVS, "gradient": MOST_EPOCHS * GRADIENT_STEPS}
    if rank == 0:  # who alone writes
        most |= {"metrics": MOST_EPOCHS, "fsync": SYNCS_PER_SAVE * (MOST_EPOCHS // SAVE_INTERVAL)}
    point = chance.choice(sorted(most))
    return Doom(rank, point, chance.randint(1, most[point]))


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    graph = tmp_path_factory.mktemp("graph") / "small_lstm.yaml"
    graph.write_text(GRAPH)

    def of(name: str, ranks: int) -> list[str]:
        return [
            "train",
            "cartpole",
            "engine=torch",
            f"run={name}",
            "env.id=doomed:Cart-v0",
            f"total_steps={EPOCHS * HORIZON * ENVS * ranks}",
            f"policy.graph={graph}",
            "policy.normalize_observations=true",
            "policy.normalize_returns=true",
            "curriculum.kind=learning_progress",
            "curriculum.tasks={usual: {weight: 2}, weak: {kwargs: {force: 3.0}}}",
            "ppo.learning_rate={kind: cosine, start: 3e-3, end: 1e-4}",
            "ppo.clip={kind: linear, start: 0.3, end: 0.1}",
            "ppo.entropy_coefficient={kind: exponential, start: 0.02, end: 0.001}",
            f"ppo.env_count={ENVS}",
            f"ppo.horizon={HORIZON}",
            "ppo.segment_length=8",
            "ppo.minibatch_size=16",
            "ppo.update_epochs=2",
            f"checkpoints.save_interval={SAVE_INTERVAL}",
            "loggers.tensorboard=false",
            "--quiet",
        ]

    return of


@pytest.fixture(scope="module")
def undisturbed(server, together, words):
    """The run to compare with, made once for each number of ranks; several are joined as under torchrun."""
    made = {}

    def run(count: int):
        name = f"undisturbed-{count}"
        if count not in made:
            ranks = together(*words(name, count), count=count) if count > 1 else [server.start(*words(name, 1))]
            assert [rank.wait() for rank in ranks] == [0] * count, [rank.err.read_text() for rank in ranks]
            made[count] = server.run(name)
        return made[count]

    return run


@pytest.fixture
def session(server, words, beside_the_tests):
    """`session(name, ranks, doom)`: one process that trains, several by `--nproc`; with a doom, until that."""

    def start(name: str, ranks: int, doom: Doom | None = None):
        requested = [*words(name, ranks), *(["--nproc", str(ranks)] if ranks > 1 else [])]
        variables = {"PYTHONPATH": beside_the_tests}
        return server.start(*requested, variables=variables | ({"PALAESTRA_DOOM": str(doom)} if doom else {}))

    return start


@pytest.fixture
def kill_again_and_again(server, session):
    """Sessions of one run, each continuing where the last was killed, the final one to the end.

    Some seeds draw kills before the first checkpoint again and again: then there are more, until half of them were not.
    """

    def kill(name: str, ranks: int, kills: int, chance: random.Random):
        for number in itertools.count():
            if number >= kills and len(resumes(server.run(name))) >= kills // 2:
                break
            doom = draw_doom(chance, ranks)
            trainer = session(name, ranks, doom)
            code, reports = trainer.wait(), trainer.err.read_text()
            if ranks == 1:
                assert code == -signal.SIGKILL, (str(doom), reports)
            else:
                assert (code, reports.strip()) == (1, f"palaestra: Rank {doom.rank} was ended by SIGKILL."), str(doom)
        trainer = session(name, ranks)
        assert trainer.wait() == 0, trainer.err.read_text()
        return server.run(name)

    return kill


def resumes(directory):
    return [entry.data for entry in read_journal(directory.journal_file) if entry.event == "run.resumed"]


def digests(directory, ranks):
    """Of each rank's weights at the end, as it wrote them into its own log."""
    texts = [directory.log_file(rank).read_text() for rank in range(ranks)]
    return [re.findall(r"Ended at epoch (\d+) with weights sha256=(\w{64})", text)[-1] for text in texts]


def test_the_run_that_is_compared_with_has_all_of_it(undisturbed):
    """An LSTM that is not there, or one task only, would prove nothing."""
    directory = undisturbed(1)
    state = CheckpointManager(directory).load_trainer_state("latest")["training"]
    assert state["memory"]
    assert all(part.abs().sum() > 0 for part in state["memory"].values())
    assert not any(isnan(mean) for mean in state["curriculum"]["fast"]), "a task was never played"
    assert state["reward_sums"].abs().sum() > 0
    with MetricsReader(directory.metrics_file) as reader:
        rates = [point.value for point in reader.series("charts/learning_rate")]
        assert rates[0] > 20 * rates[-1]
        shares = {point.value for point in reader.series("tasks/usual/share")}
        assert len(shares) > 10, "the curriculum did not move"


@pytest.mark.fault("R1", "D1")
@pytest.mark.parametrize(
    ("ranks", "kills"), [(1, 6), pytest.param(2, 2, marks=pytest.mark.full)], ids=["1 rank", "2 ranks"]
)
def test_killed_at_drawn_points_it_ends_with_the_same_bytes(
    undisturbed, kill_again_and_again, differences, figure, chaos_seed, ranks, kills
):
    directory = kill_again_and_again(f"killed-{ranks}", ranks, kills, random.Random(3 + chaos_seed))
    assert differences(directory, undisturbed(ranks)) == []
    figure(f"kills with everything on, {ranks} ranks", kills)
    assert all(entry["exact"] for entry in resumes(directory))
    assert len(resumes(directory)) >= kills // 2, "most kills came before the first checkpoint"
    assert len({*digests(directory, ranks), *digests(undisturbed(ranks), ranks)}) == 1


@pytest.mark.fault("R1", "D1")
@pytest.mark.chaos
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("ranks", "runs", "kills"), [(1, 10, 8), (2, 4, 6)], ids=["1 rank", "2 ranks"])
def test_of_many_kills_every_run_with_everything_is_exact(
    undisturbed, kill_again_and_again, differences, figure, chaos_seed, ranks, runs, kills
):
    chance = random.Random(ranks + chaos_seed)
    found = {}
    for number in range(runs):
        directory = kill_again_and_again(f"chaos-{ranks}-{number}", ranks, kills, chance)
        found[number] = differences(directory, undisturbed(ranks))
    exact = sum(each == [] for each in found.values())
    figure(f"kills with everything on, {ranks} ranks", runs * kills)
    figure(f"runs exact of {runs}, {ranks} ranks", exact)
    assert found == {number: [] for number in range(runs)}


@pytest.mark.fault("D5")
@pytest.mark.chaos
def test_a_leader_killed_in_the_middle_of_a_commit_takes_the_other_along_and_nothing_is_lost(
    server, session, undisturbed, differences
):
    """The first session ends after its first save; others at a later sync each, until data lies there uncommitted."""
    left = []
    first = Doom(0, "gradient", (SAVE_INTERVAL + 1) * GRADIENT_STEPS)
    for doom in (first, *(Doom(0, "fsync", count) for count in range(6, 12))):
        trainer = session("commit", 2, doom)
        assert trainer.wait() == 1
        assert trainer.err.read_text().strip() == "palaestra: Rank 0 was ended by SIGKILL."
        left = CheckpointManager(server.run("commit")).uncommitted_files()
        if left:
            break
    assert left, "no kill came in the middle of a commit"
    assert session("commit", 2).wait() == 0
    assert differences(server.run("commit"), undisturbed(2)) == []
    assert all(entry["exact"] for entry in resumes(server.run("commit")))
