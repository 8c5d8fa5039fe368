"""Many worlds in one call do what each would do alone; and whatever is asked of them wrongly moves nothing."""

import numpy as np
import pytest

from palaestra.apps.arena.observe import box_view, bytes_view, observation_specs, tokens_view
from palaestra.apps.arena.reference import World
from palaestra.apps.arena.reference_batch import ReferenceBatch
from palaestra.apps.arena.settings import ArenaSettings
from palaestra.apps.arena.tables import COUNTERS

BUSY = {"agents": 5, "width": 14, "height": 14, "combat": True, "inventory": {"charge": 2}, "view": 5, "tokens": 16}
REWARDS = {"ore": 0.1, "battery": 0.3, "heart": 1.0}
EASY = ArenaSettings(**BUSY, rewards=REWARDS, max_steps=30)
HARD = ArenaSettings(**BUSY, rewards=REWARDS, max_steps=20, walls=8, teams=2, team_share=0.5)
VIEWS = {"bytes": bytes_view, "tokens": lambda *observations: tokens_view(*observations)[0], "box": box_view}


def room_for(settings, world_count):
    specs, rows = observation_specs(settings), world_count * settings.agents
    if isinstance(specs, dict):
        return {name: np.full((rows, *spec.shape), 77, spec.dtype) for name, spec in specs.items()}
    return np.full((rows, *specs.shape), 77, specs.dtype)


def form_of(settings, form):
    return settings.model_copy(update={"observation": form})


class Player:
    """A batch with its buffers, played at random and reset where an episode was cut."""

    def __init__(self, tasks, world_count, seed=0):
        self.batch = ReferenceBatch(tasks, world_count, threads=2)
        self.out = room_for(tasks[0], world_count)
        self.rewards = np.zeros(world_count * tasks[0].agents, np.float32)
        self.generator = np.random.default_rng(seed)
        self.task_count = len(tasks)
        self.begin(range(world_count))

    def begin(self, worlds):
        worlds = list(worlds)
        seeds = self.generator.integers(0, 2**63, len(worlds)).tolist()
        tasks = self.generator.integers(0, self.task_count, len(worlds)).tolist()
        self.batch.reset(worlds, seeds, tasks, self.out)

    def play(self, steps):
        """What was written, step by step, as text."""
        story = []
        for _ in range(steps):
            over = self.batch.step(self.generator.integers(0, 6, len(self.rewards)), self.out, self.rewards)
            story.append((self.rewards.tolist(), digest(self.out), over))
            if over:
                self.begin(over)
        return story


def parts_of(observation):
    return list(observation.values()) if isinstance(observation, dict) else [observation]


def digest(out):
    return [part.tobytes() for part in parts_of(out)]


@pytest.mark.parametrize("form", ["bytes", "tokens", "box"])
def test_worlds_in_a_batch_are_the_worlds_alone(form):
    tasks = [form_of(EASY, form), form_of(HARD, form)]
    batch, out, rewards = ReferenceBatch(tasks, 3), room_for(tasks[0], 3), np.zeros(15, np.float32)
    batch.reset([0, 1, 2], [11, 12, 13], [0, 1, 0], out)
    alone = [World(tasks[task], seed) for task, seed in ((0, 11), (1, 12), (0, 13))]
    generator = np.random.default_rng(1)
    for _ in range(15):
        actions = generator.integers(0, 6, 15)
        batch.step(actions, out, rewards)
        paid = [world.step(actions[5 * number : 5 * number + 5]) for number, world in enumerate(alone)]
        assert rewards.tolist() == np.concatenate(paid).tolist()
    for number, world in enumerate(alone):
        assert str(batch.world_state(number)) == str(world.state())
        assert batch.counters(number)[:, :-1].tolist() == world.counters()[:, :-1].tolist()
        for agent in range(5):
            observations = VIEWS[form](world.state(), world.settings, agent)
            for written, expected in zip(parts_of(out), parts_of(observations), strict=True):
                np.testing.assert_array_equal(written[5 * number + agent], expected)


def test_an_episode_that_was_cut_is_named_and_shows_its_end():
    batch, out, rewards = ReferenceBatch([EASY, HARD], 2), room_for(EASY, 2), np.zeros(10, np.float32)
    batch.reset([0, 1], [1, 2], [0, 1], out)
    over = [batch.step(np.zeros(10, np.int64), out, rewards) for _ in range(20)]
    assert over == [[]] * 19 + [[1]]
    assert out["self"][5:, 8].tolist() == [255] * 5  # progress
    batch.reset([1], [3], [0], out)
    assert out["self"][:, 8].tolist() == [255 * 20 // 30] * 5 + [0] * 5
    assert (batch.world_state(0).step, batch.world_state(1).step) == (20, 0)


def test_a_reset_writes_only_the_rows_of_its_world():
    batch, out = ReferenceBatch([EASY], 3), room_for(EASY, 3)
    batch.reset([1], [1], [0], out)
    assert (out["cells"][:5] == 77).all()
    assert (out["cells"][10:] == 77).all()
    assert (out["cells"][5:10] != 77).all()


def test_returns_are_the_sum_of_what_was_written_and_begin_anew():
    player = Player([HARD], 2)
    total = np.zeros(10, np.float64)
    for _ in range(19):
        player.play(1)
        total += player.rewards
    assert total.any()
    assert [*player.batch.returns(0), *player.batch.returns(1)] == total.tolist()
    player.begin([0, 1])
    for world in (0, 1):
        assert player.batch.returns(world).tolist() == [0.0] * 5
        assert player.batch.counters(world)[:, :-1].sum() == 0


def test_dropped_tokens_are_counted_over_every_observation_of_the_episode():
    settings = form_of(EASY, "tokens")
    player = Player([settings], 1)
    dropped = np.zeros(5, np.int64)

    def count():
        state = player.batch.world_state(0)
        return [tokens_view(state, settings, agent)[1] for agent in range(5)]

    dropped += count()
    for _ in range(29):
        player.play(1)
        dropped += count()
    assert dropped.min() > 0
    assert player.batch.counters(0)[:, COUNTERS.index("dropped_tokens")].tolist() == dropped.tolist()


@pytest.mark.parametrize("form", ["bytes", "tokens", "box"])
def test_a_restored_batch_goes_on_as_if_nothing_had_been(form):
    tasks = [form_of(EASY, form), form_of(HARD, form)]
    player = Player(tasks, 3, seed=5)
    player.play(25)
    captured, generator = player.batch.capture(), player.generator.bit_generator.state
    as_captured = str(captured)
    expected = player.play(40)
    for _ in range(2):
        other = Player(tasks, 3, seed=99)
        other.play(7)
        other.batch.restore(captured)
        other.generator.bit_generator.state = generator
        assert other.play(40) == expected
        for world in range(3):
            assert other.batch.counters(world).tolist() == player.batch.counters(world).tolist()
            assert other.batch.returns(world).tolist() == player.batch.returns(world).tolist()
        assert str(captured) == as_captured  # playing on does not reach into what was captured


def test_what_is_captured_is_plain():
    def is_plain(value):
        if isinstance(value, dict):
            return all(isinstance(name, str) and is_plain(part) for name, part in value.items())
        if isinstance(value, list):
            return all(map(is_plain, value))
        return isinstance(value, int | float | bytes | np.ndarray)

    assert is_plain(Player([EASY], 2).batch.capture())


def test_a_world_that_was_never_reset_is_captured_as_such():
    batch, out = ReferenceBatch([EASY], 2), room_for(EASY, 2)
    batch.reset([1], [1], [0], out)
    other = ReferenceBatch([EASY], 2)
    other.restore(batch.capture())
    with pytest.raises(ValueError, match="world 0 is not in an episode"):
        other.step(np.zeros(10, np.int64), out, np.zeros(10, np.float32))


def test_a_state_of_another_number_of_worlds_is_refused_with_both():
    with pytest.raises(ValueError, match="holds 2 worlds, and there are 3 here"):
        ReferenceBatch([EASY], 3).restore(Player([EASY], 2).batch.capture())


@pytest.mark.parametrize("bad", [-1, 6])
def test_an_action_out_of_range_is_named_with_its_row_and_nothing_moves(bad):
    player = Player([EASY], 2)
    actions = np.ones(10, np.int64)
    actions[7] = bad
    before, observations = str(player.batch.capture()), digest(player.out)
    with pytest.raises(ValueError, match=f"action {bad} of row 7"):
        player.batch.step(actions, player.out, player.rewards)
    assert (str(player.batch.capture()), digest(player.out)) == (before, observations)


def test_a_world_that_is_over_must_be_reset_first_and_nothing_moves():
    batch, out, rewards = ReferenceBatch([EASY, HARD], 2), room_for(EASY, 2), np.zeros(10, np.float32)
    batch.reset([0, 1], [1, 2], [0, 1], out)
    for _ in range(20):
        batch.step(np.zeros(10, np.int64), out, rewards)
    with pytest.raises(ValueError, match="world 1 is not in an episode: reset it"):
        batch.step(np.zeros(10, np.int64), out, rewards)
    assert batch.world_state(0).step == 20


@pytest.mark.parametrize("change", [{"agents": 4}, {"view": 7}, {"observation": "box"}, {"tokens": 17}])
def test_tasks_that_disagree_in_what_is_observed_are_refused(change):
    with pytest.raises(ValueError, match=f"must agree in {next(iter(change))}; here are"):
        ReferenceBatch([EASY, EASY.model_copy(update=change)], 1)


def test_a_batch_without_tasks_is_refused():
    with pytest.raises(ValueError, match="at least one task"):
        ReferenceBatch([], 1)
