"""The compiled worlds against the slow ones in Python: two writings of one text, which must agree in every bit."""

import os
import signal
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.apps.arena.observe import empty_rows, observation_specs
from palaestra.apps.arena.reference_batch import ReferenceBatch
from palaestra.apps.arena.settings import ArenaSettings
from palaestra.apps.arena.tables import ACTIONS, CODE_COUNT, COUNTERS, FEATURES, ITEMS, SELF, STATIONS

native_batch = pytest.importorskip("palaestra.apps.arena.native_batch", reason="built without a C++ compiler")
native_core, NativeBatch = native_batch.native_core, native_batch.NativeBatch

FORMS = ("bytes", "tokens", "box")
WORLDS = 2
FIGHT = ArenaSettings(
    agents=6,
    teams=2,
    width=12,
    height=11,
    walls=4,
    combat=True,
    freeze=3,
    inventory={"charge": 3, "ore": 2, "armour": 1},
    rewards={"ore": 0.1, "battery": 0.3, "heart": 1.0},
    mine={"count": 2, "cooldown": 1},
    generator={"count": 1, "stock": 5},
    altar={"count": 1, "cost": 1},
    max_steps=50,
)


def room_for(arena, world_count):
    specs, rows = observation_specs(arena), world_count * arena.agents
    if isinstance(specs, dict):
        return {name: np.full((rows, *spec.shape), 77, spec.dtype) for name, spec in specs.items()}
    return np.full((rows, *specs.shape), 77, specs.dtype)


def are_equal(ours, theirs):
    """In type, shape and every bit."""
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(are_equal(ours[name], theirs[name]) for name in ours)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(are_equal, ours, theirs))
    if isinstance(ours, np.ndarray):
        return (ours.dtype, ours.shape, ours.tobytes()) == (theirs.dtype, theirs.shape, theirs.tobytes())
    return ours == theirs


stations = st.builds(
    dict,
    count=st.integers(0, 3),
    cost=st.integers(0, 2),
    cooldown=st.sampled_from([0, 1, 3, 255]),
    stock=st.sampled_from([None, 1, 2, 65_535]),
)
views = st.sampled_from([(view, sight) for view in range(3, 16, 2) for sight in (None, 1, view // 2)])


@st.composite
def arenas(draw):
    """Small and crowded, so that everything happens to everybody."""
    view, sight = draw(views)
    limit = draw(st.sampled_from([1, 4, 255]))
    items = st.dictionaries(st.sampled_from(ITEMS), st.integers(0, min(limit, 5)))
    return ArenaSettings(
        agents=draw(st.integers(1, 9)),
        teams=draw(st.integers(1, 4)),
        team_share=draw(st.sampled_from([0.0, 0.3, 1.0])),
        width=draw(st.integers(11, 20)),
        height=draw(st.integers(11, 20)),
        room=draw(st.sampled_from([0, 1, 2, 3, 5])),
        walls=draw(st.sampled_from([0, 3, 20, 200])),
        **{name: draw(stations) for name in STATIONS},
        inventory=draw(items),
        limit=limit,
        rewards=draw(st.dictionaries(st.sampled_from(ITEMS), st.floats(-3, 3))),
        reward_caps=draw(st.dictionaries(st.sampled_from(ITEMS), st.integers(0, 3))),
        combat=draw(st.booleans()),
        reach=draw(st.integers(1, 15)),
        freeze=draw(st.sampled_from([1, 2, 8, 255])),
        steal=draw(st.sampled_from([0, 1, 2, 9])),
        observation=draw(st.sampled_from(FORMS)),
        view=view,
        sight=sight,
        show_state=draw(st.booleans()),
        tokens=draw(st.sampled_from([16, 40, 96, 255])),
        max_steps=draw(st.sampled_from([1, 7, 30])),
    )


class Pair:
    """The same worlds twice, with the same seeds and actions."""

    def __init__(self, arena, seed):
        self.batches = [NativeBatch([arena], WORLDS), ReferenceBatch([arena], WORLDS)]
        self.observations = [room_for(arena, WORLDS) for _ in self.batches]
        self.rewards = [np.full(WORLDS * arena.agents, np.nan, np.float32) for _ in self.batches]
        self.generator = np.random.default_rng(seed)
        self.begin(list(range(WORLDS)))

    def begin(self, worlds):
        seeds = self.generator.integers(0, 2**64, len(worlds), dtype=np.uint64).tolist()
        for batch, observations in zip(self.batches, self.observations, strict=True):
            batch.reset(worlds, seeds, [0] * len(worlds), observations)

    def step(self):
        actions = self.generator.integers(0, len(ACTIONS), self.rewards[0].size)
        cut, also_cut = (
            batch.step(actions, observations, rewards)
            for batch, observations, rewards in zip(self.batches, self.observations, self.rewards, strict=True)
        )
        assert cut == also_cut
        return cut

    def compare(self):
        ours, theirs = self.batches
        assert are_equal(*self.observations)
        assert are_equal(*self.rewards)
        assert are_equal(ours.capture(), theirs.capture())  # states, counters, returns, accounts and dice

    def play(self, steps):
        """Gives the episodes that were cut on the way."""
        episodes = 0
        for _ in range(steps):
            cut = self.step()
            self.compare()
            self.batches[0].check()
            episodes += len(cut)
            if cut:
                self.begin(cut)
                self.compare()
        return episodes


@settings(max_examples=20, deadline=None)
@given(arenas(), st.integers(0, 2**32))
def test_every_step_is_that_of_the_reference(arena, seed):
    pair = Pair(arena, seed)
    pair.compare()
    pair.play(steps=20)


def test_what_is_queried_of_one_world_is_what_the_reference_says():
    pair = Pair(FIGHT.model_copy(update={"inventory": {"charge": 9, "ore": 5}}), seed=1)
    pair.play(steps=45)
    ours, theirs = pair.batches
    for world in range(WORLDS):
        assert are_equal(vars(ours.world_state(world)), vars(theirs.world_state(world)))
        assert are_equal(ours.counters(world), theirs.counters(world))
        assert are_equal(ours.returns(world), theirs.returns(world))
    assert sum(batch.counters(0)[:, COUNTERS.index("stolen")].sum() for batch in pair.batches) > 0


@pytest.mark.parametrize("form", FORMS)
def test_either_goes_on_where_the_other_stopped(form):
    pair = Pair(FIGHT.model_copy(update={"observation": form}), seed=2)
    pair.play(steps=10)
    ours, theirs = (batch.capture() for batch in pair.batches)
    pair.play(steps=5)
    pair.batches[0].restore(theirs)
    pair.batches[1].restore(ours)
    pair.play(steps=60)


def test_both_count_with_the_same_words():
    arguments = (ITEMS, STATIONS, ACTIONS, range(CODE_COUNT), SELF, FEATURES, COUNTERS)
    names = ("items", "stations", "actions", "codes", "self", "features", "counters")
    assert native_core.tables() == {name: len(word) for name, word in zip(names, arguments, strict=True)}


# ---- many worlds

TASKS = [
    FIGHT,
    FIGHT.model_copy(update={"width": 30, "height": 9, "teams": 1, "max_steps": 31, "sight": 2}),
    FIGHT.model_copy(update={"walls": 60, "teams": 4, "room": 3, "width": 20, "height": 22, "max_steps": 17}),
]


def story(threads, form, world_count=7, steps=80):
    tasks = [task.model_copy(update={"observation": form}) for task in TASKS]
    batch, out = NativeBatch(tasks, world_count, threads), room_for(tasks[0], world_count)
    rewards = np.zeros(world_count * tasks[0].agents, np.float32)
    generator = np.random.default_rng(3)
    message, cut = [], list(range(world_count))
    for _ in range(steps):
        seeds, which = generator.integers(0, 2**63, len(cut)), generator.integers(0, len(tasks), len(cut))
        batch.reset(cut, seeds, which, out)
        cut = batch.step(generator.integers(0, 6, rewards.size), out, rewards)
        batch.check()
        message.append([part.tobytes() for part in (out.values() if isinstance(out, dict) else [out])])
        message.append([rewards.tobytes(), cut])
    return message


@pytest.fixture
def as_many_threads_as_asked(monkeypatch):
    monkeypatch.setattr(native_batch, "MIN_THREAD_WORK", 1)


def test_a_small_batch_is_not_split_and_a_large_one_is():
    useful = native_batch._useful_threads
    assert useful([FIGHT], world_count=64) == 1
    assert useful([FIGHT.model_copy(update={"observation": "box"})], world_count=64) == 1
    assert useful([FIGHT.model_copy(update={"agents": 24})], world_count=4096) == 29
    assert useful([], world_count=4) == 1


@pytest.mark.usefixtures("as_many_threads_as_asked")
@pytest.mark.parametrize("form", FORMS)
def test_the_number_of_threads_changes_nothing(form):
    alone = story(1, form)
    assert story(2, form) == alone
    assert story(5, form) == alone


def test_worlds_that_are_not_named_are_left_alone():
    batch, out = NativeBatch([FIGHT], 3), room_for(FIGHT, 3)
    batch.reset([0, 1, 2], [1, 2, 3], [0, 0, 0], out)
    before, observations = batch.capture(), {name: part.copy() for name, part in out.items()}
    batch.reset([1], [9], [0], out)
    after = batch.capture()
    assert are_equal([before["worlds"][k] for k in (0, 2)], [after["worlds"][k] for k in (0, 2)])
    assert not are_equal(before["worlds"][1], after["worlds"][1])
    rows = np.r_[0:6, 12:18]
    assert are_equal(observations["cells"][rows], out["cells"][rows])


@pytest.mark.usefixtures("as_many_threads_as_asked")
def test_a_child_process_steps_without_its_parents_threads():
    batch, out, rewards = begun(threads=3)
    batch.step(np.zeros(18, np.int64), out, rewards)
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # a child that waits for threads it does not have ends, too
        batch.step(np.zeros(18, np.int64), out, rewards)
        clock = batch.world_state(2).step
        del batch
        os._exit(clock)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


def test_two_threads_cannot_step_the_same_worlds_at_once():
    arena = FIGHT.model_copy(update={"max_steps": 1_000_000})
    batch, out, rewards = begun(arena, threads=1)
    done, refused = [], []

    def play():
        for _ in range(3000):
            try:
                batch.step(np.zeros(18, np.int64), out, rewards)
                done.append(1)
            except RuntimeError as error:
                refused.append(str(error))

    players = [threading.Thread(target=play) for _ in range(2)]
    for player in players:
        player.start()
    for player in players:
        player.join()
    batch.check()
    assert batch.world_state(0).step == len(done)
    assert set(refused) <= {"these worlds are being stepped by another thread"}


# ---- what must never be


def test_items_and_cells_add_up_by_an_account_of_our_own():
    """From what Python can see alone, without the core's own check."""
    batch, out, rewards = begun(FIGHT.model_copy(update={"max_steps": 2000}), threads=1)
    generator = np.random.default_rng(4)
    for _ in range(1500):
        batch.step(generator.integers(0, 6, 18), out, rewards)
    for world in range(3):
        state, counted = batch.world_state(world), dict(zip(COUNTERS, batch.counters(world).sum(0), strict=True))
        carried = dict(zip(ITEMS, state.inventories.sum(0), strict=True))
        begun_with = {item: FIGHT.inventory.get(item, 0) * FIGHT.agents for item in ITEMS}
        spent = {
            "ore": counted["battery"] * FIGHT.generator.cost,
            "battery": counted["heart"] * FIGHT.altar.cost,
            "heart": 0,
            "armour": counted["blocked"],
            "charge": counted["attacks"],
        }
        assert carried == {item: begun_with[item] + counted[item] - spent[item] for item in ITEMS}
        assert counted["stolen"] == counted["lost"]
        assert counted["attacks"] > 0
        assert counted["heart"] > 0
        cells = [tuple(row) for row in np.concatenate([state.agents[:, :2], state.stations[:, :2]]).tolist()]
        assert len(set(cells)) == len(cells)
        assert not any(state.walls[cell] for cell in cells)


def test_the_check_sees_an_item_from_nowhere():
    batch, _, _ = begun()
    state = batch.capture()
    state["worlds"][1]["counters"][0, COUNTERS.index("ore")] += 1
    batch.restore(state)
    with pytest.raises(RuntimeError, match=r"world 1: item 0: 12 carried, 13 accounted for"):
        batch.check()


def begun(arena=FIGHT, threads=1, world_count=3):
    batch, out = NativeBatch([arena], world_count, threads), room_for(arena, world_count)
    batch.reset(range(world_count), range(world_count), [0] * world_count, out)
    return batch, out, np.zeros(world_count * arena.agents, np.float32)


# ---- asked wrongly


def of_bytes(cells=None, selves=None):
    given = room_for(FIGHT, 3)
    return {"cells": given["cells"] if cells is None else cells, "self": given["self"] if selves is None else selves}


REST, PAID = np.zeros(18, np.int64), np.zeros(18, np.float32)
BAD_ARRAYS = {
    "actions of another type": (REST.astype(np.int32), of_bytes(), PAID, "actions must be int64"),
    "actions too few": (REST[:17], of_bytes(), PAID, r"actions must be int64 of shape \(18\); it is of shape \(17\)"),
    "actions in a list": (REST.tolist(), of_bytes(), PAID, "actions must be int64 of shape .*, not list"),
    "no actions": (None, of_bytes(), PAID, "actions must be int64 of shape .*, not NoneType"),
    "actions of floats": (REST.astype(float), of_bytes(), PAID, "actions must be int64"),
    "actions of the other byte order": (REST.astype(">i8"), of_bytes(), PAID, "actions must be int64"),
    "every second action": (np.zeros(36, np.int64)[::2], of_bytes(), PAID, "not C-contiguous"),
    "rewards of double width": (REST, of_bytes(), PAID.astype(float), "rewards must be float32"),
    "rewards too many": (REST, of_bytes(), np.zeros(19, np.float32), "rewards must be"),
    "cells of another view": (REST, of_bytes(np.zeros((18, 9, 9), np.uint8)), PAID, r"cells must be .* \(18, 11, 11\)"),
    "cells transposed": (REST, of_bytes(of_bytes()["cells"].T), PAID, "cells must be"),
    "cells with a hole": (REST, of_bytes(np.zeros((18, 11, 12), np.uint8)[:, :, :11]), PAID, "not C-contiguous"),
    "self as truth": (REST, of_bytes(selves=np.zeros((18, 9), bool)), PAID, "self must be uint8"),
    "no self": (REST, {"cells": of_bytes()["cells"]}, PAID, "self must be uint8 .*, not NoneType"),
    "one array for two": (REST, of_bytes()["cells"], PAID, "self must be uint8 .*, not NoneType"),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_an_array_that_does_not_fit_is_refused_by_name_and_nothing_moves(case):
    actions, out, rewards, message = BAD_ARRAYS[case]
    batch, _, _ = begun()
    before = batch.capture()
    with pytest.raises((ValueError, TypeError), match=message):
        batch.step(actions, out, rewards)
    assert are_equal(batch.capture(), before)


@pytest.mark.parametrize("name", ["cells", "self", "rewards"])
def test_an_array_that_cannot_be_written_is_refused(name):
    batch, out, rewards = begun()
    {**out, "rewards": rewards}[name].flags.writeable = False
    with pytest.raises(ValueError, match=f"{name} must be .*; it cannot be written to"):
        batch.step(REST, out, rewards)


@pytest.mark.parametrize("action", [-1, 6, 2**62, -(2**63)])
def test_an_action_out_of_range_is_refused_with_its_row_and_nothing_moves(action):
    batch, out, rewards = begun()
    before, actions = batch.capture(), REST.copy()
    actions[13] = action
    with pytest.raises(ValueError, match=f"action {action} of row 13 is not one of 0 to 5"):
        batch.step(actions, out, rewards)
    assert are_equal(batch.capture(), before)


def test_a_world_outside_an_episode_is_not_stepped():
    arena = FIGHT.model_copy(update={"max_steps": 2})
    batch, out, rewards = NativeBatch([arena], 3), room_for(arena, 3), PAID.copy()
    batch.reset([0, 2], [1, 2], [0, 0], out)
    with pytest.raises(ValueError, match="world 1 is not in an episode: reset it before the next step"):
        batch.step(REST, out, rewards)
    batch.reset([1], [3], [0], out)
    assert batch.step(REST, out, rewards) == []
    assert batch.step(REST, out, rewards) == [0, 1, 2]
    with pytest.raises(ValueError, match="world 0 is not in an episode"):
        batch.step(REST, out, rewards)


@pytest.mark.parametrize("world", [-1, 3, 2**31 - 1])
def test_a_world_that_is_not_there_is_refused(world):
    batch, out, _ = begun()
    for ask in (batch.counters, batch.returns, batch.world_state, lambda world: batch.reset([world], [0], [0], out)):
        with pytest.raises(IndexError, match=f"there is no world {world}; they are 0 to 2"):
            ask(world)


def test_a_world_that_never_was_has_nothing_to_report():
    batch = NativeBatch([FIGHT], 2)
    for ask in (batch.counters, batch.returns, batch.world_state):
        with pytest.raises(ValueError, match="world 1 has never been reset"):
            ask(1)
    assert batch.capture()["worlds"] == [{}, {}]


@pytest.mark.parametrize(
    ("worlds", "seeds", "tasks", "error", "message"),
    [
        ([0], [1], [1], IndexError, "there is no task 1; they are 0 to 0"),
        ([0], [1], [-1], IndexError, "there is no task -1"),
        ([0, 1], [1], [0], ValueError, "as many seeds and tasks as worlds; got 2 worlds, 1 seeds and 1 tasks"),
        ([1, 1], [1, 2], [0, 0], ValueError, "world 1 is named twice"),
    ],
)
def test_a_reset_that_cannot_be_is_refused_and_nothing_moves(worlds, seeds, tasks, error, message):
    batch, out, _ = begun()
    before = batch.capture()
    with pytest.raises(error, match=message):
        batch.reset(worlds, seeds, tasks, out)
    assert are_equal(batch.capture(), before)


@pytest.mark.parametrize(
    ("tasks", "world_count", "threads", "message"),
    [
        ([], 1, 1, "at least one task"),
        ([FIGHT, FIGHT.model_copy(update={"view": 9})], 1, 1, "must agree in agents, view, observation and tokens"),
        ([FIGHT], 0, 1, "world_count=0"),
        ([FIGHT], -3, 1, "world_count=-3"),
        ([FIGHT], 1, 0, "threads=0"),
        ([FIGHT.model_copy(update={"view": 17})], 1, 1, "view=17 must be from 3 to 15"),
        ([FIGHT.model_copy(update={"view": 4})], 1, 1, "view=4 must be odd"),
        ([FIGHT.model_copy(update={"agents": 500})], 1, 1, r"agents \+ 4 \* stations=516 must be from 1 to 90"),
        ([FIGHT.model_copy(update={"inventory": {"ore": 256}})], 1, 1, "inventory=256"),
    ],
)
def test_settings_that_were_not_checked_at_the_interface_are_refused_here(tasks, world_count, threads, message):
    with pytest.raises(ValueError, match=message):
        NativeBatch(tasks, world_count, threads)


def at(table, index, value):
    def damage(state):
        state["worlds"][1][table][index] = value

    return damage


def put(name, value):
    def damage(state):
        state["worlds"][1][name] = value

    return damage


DAMAGES = {
    "a wall less in the ring": (at("walls", (0, 3), 0), "a cell of the walls is 0"),
    "a wall of 7": (at("walls", (3, 3), 7), "a cell of the walls is 7"),
    "an agent in the wall": (at("agents", (2, slice(2)), (0, 0)), "two things are in row 0, column 0"),
    "an agent beyond the map": (at("agents", (2, 0), 1_000_000), "a row is 1000000, which is not from 0 to 10"),
    "a station before the map": (at("stations", (0, 1), -1), "a column is -1"),
    "a kind that it is not": (at("stations", (0, 2), 4), "the kind of a station is 4"),
    "a cooldown below 0": (at("stations", (0, 3), -5), "a cooldown is -5"),
    "a facing of 4": (at("agents", (0, 2), 4), "a facing is 4"),
    "a team that it is not of": (at("agents", (0, 4), 1), "a team is 1"),
    "an action that is none": (at("agents", (0, 5), 6), "a last action is 6"),
    "more than one can carry": (at("inventories", (0, 0), 51), "an item is 51, which is not from 0 to 50"),
    "a debt": (at("accounts", (0, 0), -1), "an account is -1"),
    "a counter that is too large": (at("counters", (0, 0), 2**40), "a counter is 1099511627776"),
    "a time that will never be": (put("step", 51), "the step is 51, which is not from 0 to 50"),
    "a generator state that is no number": (put("rng", "seven"), "invalid literal"),
    "a generator state of too many bits": (put("rng", 2**64), "damaged in its rng"),
    "a table of another shape": (put("agents", np.zeros((6, 5), np.int32)), r"agents must be int32 of shape \(6, 6\)"),
    "a table of another type": (put("counters", np.zeros((6, 13))), "counters must be int64"),
    "no table at all": (put("walls", None), "walls must be"),
    "a table that is gone": (
        lambda state: state["worlds"][1].pop("accounts"),
        "the state of a world has no 'accounts'",
    ),
    "a world that is gone": (lambda state: state["worlds"].pop(), "the state holds 2 worlds, and there are 3 here"),
    "worlds that are gone": (lambda state: state.pop("worlds"), "damaged: KeyError 'worlds'"),
    "a task that is not there": (lambda state: state["tasks"].__setitem__(1, 5), "there is no task 5"),
    "returns of fewer agents": (lambda state: state.update(returns=np.zeros((3, 5))), "returns must be float64"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_is_refused_and_nothing_changes(damage):
    batch, out, rewards = begun()
    batch.step(REST, out, rewards)
    before, state = batch.capture(), batch.capture()
    change, message = DAMAGES[damage]
    change(state)
    with pytest.raises(ValueError, match=message):
        batch.restore(state)
    assert are_equal(batch.capture(), before)
    batch.step(REST, out, rewards)


# ---- at full size: `make chaos`


@pytest.mark.chaos
def test_ten_thousand_random_episodes_are_those_of_the_reference():
    episodes = 0

    @settings(max_examples=10_000 // WORLDS, deadline=None, database=None)
    @given(arenas(), st.integers(0, 2**32))
    def play(arena, seed):
        nonlocal episodes
        episodes += Pair(arena, seed).play(steps=arena.max_steps)

    play()
    assert episodes >= 10_000


@pytest.mark.chaos
@pytest.mark.parametrize("teams", [1, 3])
def test_ten_million_steps_break_no_rule(teams):
    """Steps of a world, half of them in each case; every one is checked."""
    arena = FIGHT.model_copy(update={"teams": teams, "max_steps": 500})
    world_count, wanted = 100, 5_000_000
    batch, out, rewards = begun(arena, world_count=world_count)
    generator = np.random.default_rng(teams)
    for step in range(wanted // world_count):
        cut = batch.step(generator.integers(0, 6, rewards.size), out, rewards)
        batch.check()
        batch.reset(cut, [step * world_count + world for world in cut], [0] * len(cut), out)
    assert batch.counters(0).shape == (arena.agents, len(COUNTERS))


@pytest.mark.parametrize("kind", [NativeBatch, ReferenceBatch])
def test_a_state_with_the_former_key_of_the_generator_is_restored(kind):
    settings = ArenaSettings(width=9, height=9, agents=2, max_steps=20)
    rows, rewards, actions = empty_rows(settings, 2), np.zeros(2, np.float32), np.ones(2, np.int64)
    batch = kind([settings], 1)
    batch.reset([0], [3], [0], rows)
    state = batch.capture()
    [world] = state["worlds"]
    former = {**state, "worlds": [{("dice" if key == "rng" else key): part for key, part in world.items()}]}
    batch.step(actions, rows, rewards)
    expected = batch.capture()["worlds"][0]["rng"]
    batch.restore(former)
    batch.step(actions, rows, rewards)
    assert batch.capture()["worlds"][0]["rng"] == expected
