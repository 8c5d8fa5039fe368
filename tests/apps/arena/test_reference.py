"""Each rule is a sentence and a small drawing; random play then keeps what must never be broken."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from palaestra.apps.arena.reference import World
from palaestra.apps.arena.settings import ArenaSettings
from palaestra.apps.arena.tables import ATTACK, COUNTERS, EAST, ITEMS, NORTH, REST, SOUTH, STATIONS, WEST

ORE, BATTERY, HEART, ARMOUR, CHARGE = range(5)


def positions(world):
    return [(agent.y, agent.x) for agent in world.agents]


def counted(world, name):
    return world.counters()[:, COUNTERS.index(name)].tolist()


def carried(world, item):
    return [agent.items[item] for agent in world.agents]


# ---- walking


@pytest.mark.parametrize(
    ("action", "index", "facing"),
    [(NORTH, (1, 2), 0), (EAST, (2, 3), 1), (SOUTH, (3, 2), 2), (WEST, (2, 1), 3), (REST, (2, 2), 1)],
)
def test_a_direction_turns_an_agent_and_moves_it(world_of, action, index, facing):
    world = world_of("##### #...# #.>.# #...# #####")
    world.step([action])
    assert (positions(world), world.agents[0].facing) == ([index], facing)
    assert counted(world, "moves") == [int(action != REST)]


def test_a_wall_ahead_only_turns_it(world_of):
    world = world_of("### #>. ###")
    world.step([NORTH])
    assert (positions(world), world.agents[0].facing, counted(world, "moves")) == ([(1, 1)], 0, [0])


def test_an_agent_ahead_is_blocking(world_of):
    world = world_of("#### #><# ####")
    world.step([EAST, REST])
    assert positions(world) == [(1, 1), (1, 2)]


@pytest.mark.parametrize(("first", "after"), [(0, [(1, 1), (1, 3)]), (1, [(1, 2), (1, 3)])])
def test_who_comes_later_finds_the_world_as_the_first_has_left_it(world_of, first, after):
    """0 follows 1 to the east: only when 1 went first is its cell free."""
    world = world_of("###### #>>..# ######", first=first)
    world.step([EAST, EAST])
    assert positions(world) == after


def test_a_cell_that_was_left_is_free(world_of):
    world = world_of("##### #>.v# #####")
    observations = []
    for actions in ([EAST, REST], [WEST, REST], [REST, WEST], [REST, EAST]):
        world.step(actions)
        observations.append([x for _, x in positions(world)])
    assert observations == [[2, 3], [1, 3], [1, 2], [1, 3]]


def test_two_agents_cannot_change_places(world_of):
    for first in (0, 1):
        world = world_of("#### #><# ####", first=first)
        world.step([EAST, WEST])
        assert positions(world) == [(1, 1), (1, 2)]


def test_the_last_action_is_what_was_chosen_also_by_the_frozen(world_of):
    world = world_of("#### #><# ####")
    assert world.state().agents[:, 5].tolist() == [-1, -1]
    world.agents[1].frozen = 2
    world.step([NORTH, SOUTH])
    assert world.state().agents[:, 5].tolist() == [NORTH, SOUTH]
    assert world.agents[1].facing == 3


# ---- stations


@pytest.mark.parametrize(
    ("letter", "before", "after"),
    [
        ("M", {}, {"ore": 1}),
        ("G", {"ore": 2}, {"ore": 1, "battery": 1}),
        ("A", {"battery": 4}, {"battery": 1, "heart": 1}),
        ("U", {"ore": 3}, {"armour": 1}),
        ("C", {"battery": 1}, {"charge": 1}),
    ],
)
def test_a_station_takes_its_ingredients_and_gives_its_product(world_of, letter, before, after):
    world = world_of(f"#### #<{letter}# ####", items=[before])
    world.step([EAST])
    assert world.agents[0].items == dict.fromkeys(ITEMS, 0) | after
    assert positions(world) == [(1, 1)]
    product = "MGAUC".index(letter)
    assert world.counters()[0].tolist() == [int(number == product) for number in range(len(COUNTERS))]


@pytest.mark.parametrize(("letter", "before"), [("G", {}), ("A", {"battery": 2}), ("U", {"ore": 2}), ("C", {"ore": 9})])
def test_without_the_ingredients_nothing_happens(world_of, letter, before):
    world = world_of(f"#### #<{letter}# ####", items=[before])
    world.step([EAST])
    assert world.agents[0].items == dict.fromkeys(ITEMS, 0) | before
    assert world.state().stations[0, 3] == 0  # no cooldown either
    assert world.agents[0].facing == 1


def test_a_mine_asks_for_nothing_whatever_its_cost(world_of):
    world = world_of("#### #>M# ####", mine={"cost": 200})
    world.step([EAST])
    assert carried(world, "ore") == [1]


def test_nobody_carries_more_than_the_limit(world_of):
    world = world_of("#### #>G# ####", items=[{"ore": 5, "battery": 3}], limit=3)
    world.step([EAST])
    assert world.agents[0].items["ore"] == 5
    assert world.agents[0].items["battery"] == 3


def test_after_a_use_a_station_rests_for_its_cooldown(world_of):
    world = world_of("#### #>M# ####", mine={"cooldown": 3})
    ore = []
    for _ in range(9):
        world.step([EAST])
        ore.append(world.agents[0].items["ore"])
    assert ore == [1, 1, 1, 1, 2, 2, 2, 2, 3]


def test_a_station_without_a_cooldown_serves_two_in_one_step(world_of):
    world = world_of("##### #>M<# #####", mine={"cooldown": 0})
    world.step([EAST, WEST])
    assert carried(world, "ore") == [1, 1]


@pytest.mark.parametrize("first", [0, 1])
def test_a_station_with_a_cooldown_serves_the_first_of_two(world_of, first):
    world = world_of("##### #>M<# #####", mine={"cooldown": 1}, first=first)
    world.step([EAST, WEST])
    assert carried(world, "ore") == [int(first == 0), int(first == 1)]


def test_a_stock_is_used_up(world_of):
    world = world_of("#### #>M# ####", mine={"cooldown": 0, "stock": 2})
    for _ in range(5):
        world.step([EAST])
    assert carried(world, "ore") == [2]
    assert world.state().stations[0].tolist() == [1, 2, 0, 0, 0]


# ---- combat

DUEL = "##### #>.<# #####"


def test_an_attack_spends_a_charge_freezes_and_takes_from_ore_battery_and_heart_each(world_of):
    loot = {"ore": 1, "battery": 5, "heart": 2, "charge": 4}
    world = world_of(DUEL, items=[{"charge": 2}, loot], combat=True, steal=2, freeze=4)
    world.step([ATTACK, REST])
    assert list(world.agents[0].items.values()) == [1, 2, 2, 0, 1]
    assert list(world.agents[1].items.values()) == [0, 3, 0, 0, 4]
    assert world.agents[1].frozen == 4
    names = ("attacks", "hits", "blocked", "stolen", "lost")
    assert [counted(world, name) for name in names] == [[1, 0], [1, 0], [0, 0], [5, 0], [0, 5]]


def test_armour_breaks_instead(world_of):
    world = world_of(DUEL, items=[{"charge": 1}, {"ore": 3, "armour": 2}], combat=True)
    world.step([ATTACK, REST])
    assert (carried(world, "armour"), carried(world, "ore"), carried(world, "charge")) == ([0, 1], [0, 3], [0, 0])
    assert (world.agents[1].frozen, counted(world, "blocked"), counted(world, "hits")) == (0, [1, 0], [0, 0])


def test_a_thief_takes_no_more_than_it_has_room_for(world_of):
    world = world_of(DUEL, items=[{"charge": 1, "ore": 9}, {"ore": 9}], combat=True, steal=5, limit=10)
    world.step([ATTACK, REST])
    assert carried(world, "ore") == [10, 8]


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("##### #>.<# #####", {"combat": False}),
        ("###### #>..<# ######", {"reach": 2}),
        ("##### #<.<# #####", {}),  # looks the other way
        ("##### #>#<# #####", {"reach": 5}),
        ("##### #>M<# #####", {"reach": 5}),
        ("##### #>..# #..<# #####", {"reach": 5}),  # not in line
    ],
)
def test_an_attack_that_meets_nobody_keeps_its_charge(world_of, text, settings):
    world = world_of(text, items=[{"charge": 1}, {"ore": 1}], **({"combat": True} | settings))
    world.step([ATTACK, REST])
    assert (carried(world, "charge"), counted(world, "attacks"), world.agents[1].frozen) == ([1, 0], [0, 0], 0)


def test_an_attack_reaches_exactly_as_far_as_its_reach(world_of):
    world = world_of("###### #>..<# ######", items=[{"charge": 1}], combat=True, reach=3)
    world.step([ATTACK, REST])
    assert counted(world, "hits") == [1, 0]


def test_without_a_charge_there_is_no_attack(world_of):
    world = world_of(DUEL, items=[{}, {"ore": 1}], combat=True)
    world.step([ATTACK, REST])
    assert (counted(world, "attacks"), carried(world, "ore")) == ([0, 0], [0, 1])


def test_the_frozen_are_spared_and_shield_who_is_behind_them(world_of):
    world = world_of("###### #><.<# ######", items=[{"charge": 1}], combat=True, reach=5)
    world.agents[1].frozen = 3
    world.step([ATTACK, REST, REST])
    assert (carried(world, "charge"), world.agents[2].frozen) == ([1, 0, 0], 0)


def test_one_team_alone_is_everybody_against_everybody(world_of):
    world = world_of(DUEL, items=[{"charge": 1}], combat=True, teams=1)
    world.step([ATTACK, REST])
    assert world.agents[1].frozen > 0


@pytest.mark.parametrize(("attacker", "frozen"), [(2, []), (1, [2])])
def test_of_several_teams_nobody_hits_its_own(world_of, attacker, frozen):
    """0 and 2 are of one team: 2 aims at 0, and 1 aims at 2."""
    world = world_of("##### #..v# #...# #>.^# #####", items=[{"charge": 1}] * 3, combat=True, teams=2)
    world.step([ATTACK if number == attacker else REST for number in range(3)])
    assert [agent.number for agent in world.agents if agent.frozen] == frozen
    assert sum(carried(world, "charge")) == 3 - len(frozen)


def test_the_frozen_miss_as_many_steps_as_they_are_frozen_for(world_of):
    """Hit after its own turn, so that nothing of the step itself is lost."""
    world = world_of("####### #>.<..# #######", items=[{"charge": 1}], combat=True, freeze=3, reach=5, first=1)
    world.step([ATTACK, REST])
    moved = []
    for _ in range(4):
        world.step([REST, EAST])
        moved.append(world.agents[1].x - 3)
    assert moved == [0, 0, 0, 1]
    assert counted(world, "frozen_steps") == [0, 3]


def test_who_is_hit_before_its_turn_misses_that_turn_too(world_of):
    world = world_of(DUEL, items=[{"charge": 1}, {"charge": 1}], combat=True, freeze=3, first=0)
    world.step([ATTACK, ATTACK])
    assert [agent.frozen for agent in world.agents] == [0, 3]
    assert counted(world, "frozen_steps") == [0, 1]
    assert carried(world, "charge") == [0, 1]


# ---- rewards


def test_an_item_gained_pays_and_one_spent_costs_nothing(world_of):
    world = world_of("##### #M>G# #####", rewards={"ore": 0.25, "battery": 0.5})
    assert world.step([WEST]).tolist() == [0.25]
    assert world.step([EAST]).tolist() == [0.5]


def test_what_has_no_reward_pays_nothing(world_of):
    world = world_of("#### #>M# ####")
    assert world.step([EAST]).tolist() == [0.0]


def test_rewards_end_at_their_cap(world_of):
    world = world_of("#### #>M# ####", mine={"cooldown": 0}, rewards={"ore": 1.0}, reward_caps={"ore": 2})
    assert [world.step([EAST]).item() for _ in range(4)] == [1.0, 1.0, 0.0, 0.0]
    assert carried(world, "ore") == [4]


def test_theft_pays_the_thief_and_costs_who_was_paid_before(world_of):
    text = "###### #M>.<# ######"
    world = world_of(text, items=[{}, {"charge": 1}], combat=True, rewards={"ore": 1.0}, reach=3)
    assert world.step([WEST, REST]).tolist() == [1.0, 0.0]
    assert world.step([REST, ATTACK]).tolist() == [-1.0, 1.0]


def test_what_was_never_rewarded_costs_nothing_when_it_is_lost(world_of):
    world = world_of(DUEL, items=[{"charge": 1}, {"heart": 1}], combat=True)
    assert world.step([ATTACK, REST]).tolist() == [1.0, 0.0]


def test_stealing_to_and_fro_pays_nothing(world_of):
    world = world_of(DUEL, items=[{"charge": 40, "heart": 1}, {"charge": 40}], combat=True, freeze=1)
    for agent in world.agents:
        agent.rewarded_items["heart"] = agent.items["heart"]  # it was paid for
    total = np.zeros(2)
    for _ in range(60):
        total += world.step([ATTACK, ATTACK])
    assert sum(counted(world, "stolen")) >= 10
    assert total.sum() == 0
    assert sorted(total.tolist()) in ([-1.0, 1.0], [0.0, 0.0])


def test_a_part_of_each_reward_is_the_mean_of_the_team(world_of):
    world = world_of("##### #M>.# #..<# #####", rewards={"ore": 1.0}, team_share=0.5)
    assert world.step([WEST, REST]).tolist() == [0.75, 0.25]


def test_a_team_shares_with_itself_alone(world_of):
    world = world_of("###### #M>.<# #...<# ######", rewards={"ore": 1.0}, team_share=1.0, teams=2)
    assert world.step([WEST, REST, REST]).tolist() == [0.5, 0.0, 0.5]  # 0 and 2 are of one team


def test_a_team_without_agents_does_no_harm(world_of):
    world = world_of("#### #>M# ####", rewards={"ore": 1.0}, team_share=0.5, teams=3)
    assert world.step([EAST]).tolist() == [1.0]


# ---- time


def test_an_episode_is_over_after_max_steps():
    world = World(ArenaSettings(max_steps=3), 1)
    over = []
    for _ in range(3):
        world.step([REST])
        over.append(world.is_over)
    assert over == [False, False, True]


# ---- a new episode


def test_agents_begin_on_floor_with_their_inventory():
    settings = ArenaSettings(agents=8, teams=3, inventory={"battery": 2, "charge": 1})
    state = World(settings, 5).state()
    assert state.inventories.tolist() == [[0, 2, 0, 0, 1]] * 8
    assert state.agents[:, 3:].tolist() == [[0, number % 3, -1] for number in range(8)]
    assert state.step == 0


def test_places_and_facings_at_the_start_are_drawn_evenly():
    settings = ArenaSettings(width=5, height=5, agents=2, **{name: {"count": 0} for name in STATIONS})
    starts = Counter(tuple(world.state().agents[1, :3].tolist()) for world in (World(settings, s) for s in range(3600)))
    assert len(starts) == 9 * 4
    # chi-square with 35 degrees of freedom: above 67 in one of a thousand
    assert sum((count - 100) ** 2 / 100 for count in starts.values()) < 67


def test_the_order_favours_nobody(world_of):
    """Four agents around one free cell want it at once; each should get it in a quarter of 1200 tries."""
    won = Counter()
    for seed in range(1200):
        world = world_of("##### ##v## #>.<# ##^## #####")
        world.rng.state = seed
        world.step([SOUTH, EAST, WEST, NORTH])
        won.update(number for number, index in enumerate(positions(world)) if index == (2, 2))
    assert sum(won.values()) == 1200
    # chi-square with 3 degrees of freedom: above 16.3 in one of a thousand
    assert sum((won[number] - 300) ** 2 / 300 for number in range(4)) < 16.3


# ---- random play


@st.composite
def any_settings(draw):
    def station(most):
        return {
            "count": draw(st.integers(0, most)),
            "cost": draw(st.integers(0, 3)),
            "cooldown": draw(st.integers(0, 3)),
            "stock": draw(st.none() | st.integers(1, 5)),
        }

    amounts = st.fixed_dictionaries({name: st.integers(0, 3) for name in ITEMS})
    return ArenaSettings(
        width=draw(st.integers(10, 14)),
        height=draw(st.integers(10, 14)),
        agents=draw(st.integers(1, 12)),
        teams=draw(st.integers(1, 4)),
        team_share=draw(st.sampled_from([0.0, 0.3, 1.0])),
        room=draw(st.sampled_from([0, 3, 4])),
        walls=draw(st.integers(0, 6)),
        inventory=draw(amounts),
        limit=draw(st.integers(3, 6)),
        rewards=draw(st.dictionaries(st.sampled_from(ITEMS), st.sampled_from([0.125, 0.5, 1.0]))),
        reward_caps=draw(st.dictionaries(st.sampled_from(ITEMS), st.integers(0, 3))),
        combat=draw(st.booleans()),
        reach=draw(st.integers(1, 5)),
        freeze=draw(st.integers(1, 4)),
        steal=draw(st.integers(0, 3)),
        **{name: station(2) for name in STATIONS},
    )


def play(world, generator, steps=60):
    """Yields the rewards of each step; attacks are as likely as walking."""
    for _ in range(steps):
        yield world.step(generator.integers(0, 6, world.settings.agents))


random_play = given(any_settings(), st.integers(0, 2**64 - 1))


@examples(max_examples=30, deadline=None)
@random_play
def test_no_two_agents_share_a_cell_and_nobody_stands_in_a_wall_or_a_station(settings, seed):
    world = World(settings, seed)
    stations = {(y, x) for y, x, *_ in world.state().stations.tolist()}
    for _ in play(world, np.random.default_rng(seed)):
        state = world.state()
        cells = [(y, x) for y, x, *_ in state.agents.tolist()]
        assert len(set(cells)) == len(cells)
        assert not stations.intersection(cells)
        assert not any(state.walls[cell] for cell in cells)
        assert (state.inventories >= 0).all()
        assert (state.inventories <= settings.limit).all()


@examples(max_examples=30, deadline=None)
@random_play
def test_items_come_from_stations_and_go_where_the_counters_say(settings, seed):
    world = World(settings, seed)
    start = world.state().inventories.sum(0)
    for _ in play(world, np.random.default_rng(seed)):
        pass
    totals = dict(zip(COUNTERS, world.counters().sum(0).tolist(), strict=True))
    spent = {
        "ore": settings.generator.cost * totals["battery"] + settings.armoury.cost * totals["armour"],
        "battery": settings.altar.cost * totals["heart"] + settings.charger.cost * totals["charge"],
        "heart": 0,
        "armour": totals["blocked"],
        "charge": totals["attacks"],
    }
    expected = [begun + totals[item] - spent[item] for item, begun in zip(ITEMS, start.tolist(), strict=True)]
    assert world.state().inventories.sum(0).tolist() == expected
    assert totals["stolen"] == totals["lost"]
    assert totals["attacks"] == totals["hits"] + totals["blocked"]


@examples(max_examples=30, deadline=None)
@random_play
def test_a_station_gives_no_more_than_its_stock_and_its_cooldown_allow(settings, seed):
    world = World(settings, seed)
    for _ in play(world, np.random.default_rng(seed)):
        pass
    for name, item in zip(STATIONS, ITEMS, strict=True):
        station, made = getattr(settings, name), int(world.counters()[:, ITEMS.index(item)].sum())
        if station.stock is not None:
            left = [stock for _, _, kind, _, stock in world.state().stations.tolist() if STATIONS[kind] == name]
            assert made == station.stock * station.count - sum(left)
        if station.cooldown:
            assert made <= station.count * -(-60 // (1 + station.cooldown))


@examples(max_examples=30, deadline=None)
@random_play
def test_all_that_was_paid_is_what_the_accounts_hold(settings, seed):
    """So no cycle of gaining and losing can pay. All rewards here are exact in binary."""
    world = World(settings.model_copy(update={"team_share": 0.0}), seed)
    paid = sum(play(world, np.random.default_rng(seed)))
    prices = np.array([settings.rewards.get(item, 0.0) for item in ITEMS])
    assert paid.tolist() == (world.rewarded_items() @ prices).tolist()
    for item, cap in settings.reward_caps.items():
        assert (world.rewarded_items()[:, ITEMS.index(item)] <= cap).all()


@examples(max_examples=20, deadline=None)
@random_play
def test_sharing_keeps_the_mean_of_every_team(settings, seed):
    alone, sharing = (World(settings.model_copy(update={"team_share": share}), seed) for share in (0.0, 0.7))
    first, second = (play(world, np.random.default_rng(seed)) for world in (alone, sharing))
    for own, shared in zip(first, second, strict=True):
        for team in range(min(settings.teams, settings.agents)):
            assert shared[team :: settings.teams].mean() == pytest.approx(own[team :: settings.teams].mean(), abs=1e-6)


@examples(max_examples=20, deadline=None)
@random_play
def test_the_same_seed_gives_the_same_world(settings, seed):
    worlds = [World(settings, seed), World(settings, seed)]
    first, second = (play(world, np.random.default_rng(0)) for world in worlds)
    for own, other in zip(first, second, strict=True):
        assert own.tolist() == other.tolist()
    assert str(worlds[0].capture()) == str(worlds[1].capture())


def test_another_seed_gives_another_world():
    assert str(World(ArenaSettings(), 1).capture()) != str(World(ArenaSettings(), 2).capture())


@examples(max_examples=20, deadline=None)
@random_play
def test_a_restored_world_goes_on_as_if_nothing_had_been(settings, seed):
    world = World(settings, seed)
    for _ in play(world, np.random.default_rng(1), steps=25):
        pass
    restored = World.from_capture(settings, world.capture())
    first, second = (list(play(each, np.random.default_rng(2), steps=25)) for each in (world, restored))
    np.testing.assert_array_equal(first, second)
    assert str(world.capture()) == str(restored.capture())
