"""What is seen, against drawings that were written down by hand, and the three forms against each other."""

import numpy as np
import pytest

from palaestra.apps.arena.observe import (
    ArraySpec,
    box_view,
    bytes_view,
    empty_rows,
    feature_specs,
    interface_of_agent,
    observation_space,
    observation_specs,
    row_of,
    scene_of,
    tokens_view,
)
from palaestra.apps.arena.reference import World
from palaestra.apps.arena.settings import ArenaSettings, read_settings
from palaestra.apps.arena.tables import CELL, FEATURE_ID, FEATURES, NORTH, REST, SELF

KNOBS = [
    {},
    {"agents": 24, "teams": 2, "team_share": 0.5, "combat": True},
    {"width": 60, "height": 40, "room": 7},
    {"altar": {"count": 9, "cost": 0}, "rewards": {"ore": 0.1}, "max_steps": 9, "sight": 2, "show_state": False},
]


@pytest.mark.parametrize("form", ["bytes", "tokens", "box"])
def test_spaces_stay_the_same_over_every_knob_of_difficulty(form):
    interfaces = [interface_of_agent(read_settings({"observation": form, **knobs})) for knobs in KNOBS]
    assert all(interface == interfaces[0] for interface in interfaces)


@pytest.mark.parametrize(
    ("form", "shapes"),
    [("bytes", {"cells": (7, 7), "self": (9,)}), ("tokens", (40, 3)), ("box", (23, 7, 7))],
)
def test_shapes_are_those_of_the_page(form, shapes):
    space = observation_space(read_settings({"observation": form, "view": 7, "tokens": 40}))
    assert ({name: part.shape for name, part in space.items()} if form == "bytes" else space.shape) == shapes


@pytest.mark.parametrize("form", ["bytes", "tokens", "box"])
def test_an_empty_row_is_an_observation(form):
    settings = read_settings({"observation": form})
    rows = empty_rows(settings, 5)
    observations = row_of(rows, 4)
    assert observation_space(settings).contains(observations)
    part = observations["cells"] if form == "bytes" else observations
    part[:] = 1
    assert not np.any((rows["cells"] if form == "bytes" else rows) == 1)  # it was a copy


def test_tokens_and_channels_have_names_and_codes_have_none():
    names = {form: feature_specs(read_settings({"observation": form})) for form in ("bytes", "tokens", "box")}
    assert names == {"bytes": (), "tokens": FEATURES, "box": FEATURES}


PLACE = """
#####
#.>M#
#A..#
#..<#
#####
"""
LIVELY = ArenaSettings(
    agents=16,
    teams=2,
    combat=True,
    inventory={"charge": 3, "armour": 1},
    mine={"stock": 2, "cooldown": 9},
    charger={"count": 2},
    walls=10,
    view=9,
    width=16,
    height=16,
)


def lively_states():
    """Freezes, cooldowns and used-up mines come up within a hundred steps."""
    world, generator = World(LIVELY, 3), np.random.default_rng(3)
    for step in range(100):
        if step % 10 == 9:
            yield world.state()
        world.step(generator.integers(0, 6, LIVELY.agents))


def tokens_of(world, agent=0):
    tokens, dropped = tokens_view(world.state(), world.settings, agent)
    return [
        (index >> 4, index & 15, FEATURES[feature].name, value)
        for index, feature, value in tokens.tolist()
        if feature != 255
    ], dropped


def test_the_cells_around_an_agent_have_their_codes_and_beyond_the_map_is_wall(world_of):
    world = world_of(PLACE, view=5)
    assert bytes_view(world.state(), world.settings, 0)["cells"].tolist() == [
        [1, 1, 1, 1, 1],
        [1, 1, 1, 1, 1],
        [1, 0, 18, 3, 1],
        [1, 9, 0, 0, 1],
        [1, 0, 0, 18, 1],
    ]


def test_beyond_its_sight_nothing_is_observed_not_even_the_end_of_the_map(world_of):
    world = world_of(PLACE, view=5, sight=1)
    assert bytes_view(world.state(), world.settings, 0)["cells"].tolist() == [
        [2, 2, 2, 2, 2],
        [2, 1, 1, 1, 2],
        [2, 0, 18, 3, 2],
        [2, 9, 0, 0, 2],
        [2, 2, 2, 2, 2],
    ]


@pytest.mark.parametrize(
    ("cooldown", "stock", "show_state", "code"),
    [
        (0, -1, True, 0),
        (3, -1, True, 1),
        (0, 4, True, 0),
        (0, 0, True, 2),
        (3, 0, True, 2),
        (3, -1, False, 0),
        (0, 0, False, 0),
    ],
)
@pytest.mark.parametrize("kind", range(5))
def test_a_station_looks_ready_cooling_or_used_up(world_of, kind, cooldown, stock, show_state, code):
    world = world_of(f"### #>{'MGAUC'[kind]} ###", view=3, show_state=show_state)
    world.stations[0].cooldown, world.stations[0].stock = cooldown, stock
    assert bytes_view(world.state(), world.settings, 0)["cells"][1, 2] == 3 + 3 * kind + code


@pytest.mark.parametrize(("teams", "frozen", "code"), [(1, 0, 18), (1, 2, 19), (2, 0, 20), (2, 2, 21)])
def test_an_agent_is_friend_or_foe_and_may_be_frozen(world_of, teams, frozen, code):
    world = world_of("#### #><# ####", view=3, teams=teams)
    world.agents[1].frozen = frozen
    assert bytes_view(world.state(), world.settings, 0)["cells"][1].tolist() == [1, 18, code]


def test_an_agent_knows_what_it_carries_its_facing_freeze_last_action_and_the_time(world_of):
    carried = {"ore": 1, "battery": 2, "heart": 3, "armour": 4, "charge": 5}
    world = world_of(PLACE, items=[carried], view=3, max_steps=10)
    assert bytes_view(world.state(), world.settings, 0)["self"].tolist() == [1, 2, 3, 4, 5, 2, 0, 0, 0]
    world.step([NORTH, REST])
    world.agents[0].frozen = 6
    assert bytes_view(world.state(), world.settings, 0)["self"].tolist() == [1, 2, 3, 4, 5, 1, 6, 2, 25]


def test_tokens_report_first_of_oneself_then_of_the_nearest_cells(world_of):
    world = world_of("##### #.>M# #...# #####", items=[{"ore": 2, "heart": 1}], view=3)
    assert tokens_of(world) == (
        [
            (1, 1, "inventory.ore", 2),
            (1, 1, "inventory.heart", 1),
            (1, 1, "self.facing", 2),
            (1, 1, "agent.friend", 1),
            (1, 1, "agent.facing", 2),
            (1, 1, "agent.heart", 1),
            (0, 1, "wall", 1),
            (1, 2, "mine", 1),
            (0, 0, "wall", 1),
            (0, 2, "wall", 1),
        ],
        0,
    )


def test_cells_at_one_distance_are_reported_row_by_row(world_of):
    world = world_of("### #># ###", view=3)
    tokens, _ = tokens_of(world)
    direct, diagonal = [(0, 1), (1, 0), (1, 2), (2, 1)], [(0, 0), (0, 2), (2, 0), (2, 2)]
    assert [(row, column) for row, column, name, _ in tokens if name == "wall"] == direct + diagonal


def test_a_station_that_rests_and_a_foe_that_is_frozen_have_several_tokens(world_of):
    world = world_of("#### #>M# #<.# ####", items=[{}, {"armour": 2}], view=3, teams=2)
    world.stations[0].cooldown, world.stations[0].stock = 7, 0
    world.agents[1].frozen = 5
    tokens, _ = tokens_of(world)
    assert [token[2:] for token in tokens if token[:2] == (1, 2)] == [
        ("mine", 1),
        ("station.cooldown", 7),
        ("station.exhausted", 1),
    ]
    assert [token[2:] for token in tokens if token[:2] == (2, 1)] == [
        ("agent.foe", 1),
        ("agent.facing", 4),
        ("agent.frozen", 5),
        ("agent.armour", 2),
    ]


def test_tokens_that_find_no_room_are_counted_and_the_nearest_stay(world_of):
    text = "####### #..>..# #######"
    wide, narrow = world_of(text, view=15, tokens=255), world_of(text, view=15, tokens=16)
    (every, none), (some, dropped) = tokens_of(wide), tokens_of(narrow)
    assert none == 0
    assert some == every[:16]
    assert dropped == len(every) - 16 == 220 + 3 - 16  # 15 x 15 cells of which 5 are floor; facing, friend, its facing


def test_the_rest_of_the_tokens_is_255(world_of):
    world = world_of(PLACE, view=3, tokens=20)
    tokens, _ = tokens_view(world.state(), world.settings, 0)
    message = len(tokens_of(world)[0])
    assert (tokens[message:] == 255).all()
    assert message < 20


def test_a_box_has_a_layer_for_each_feature(world_of):
    world = world_of("##### #.>M# #...# #####", items=[{"ore": 2}], view=3)
    box = box_view(world.state(), world.settings, 0)
    observations = {FEATURES[number].name: box[number].tolist() for number in range(len(FEATURES)) if box[number].any()}
    middle = [[0, 0, 0], [0, 1, 0], [0, 0, 0]]
    twice = [[0, 0, 0], [0, 2, 0], [0, 0, 0]]
    assert observations == {
        "wall": [[1, 1, 1], [0, 0, 0], [0, 0, 0]],
        "mine": [[0, 0, 0], [0, 0, 1], [0, 0, 0]],
        "agent.friend": middle,
        "agent.facing": twice,
        "inventory.ore": twice,
        "self.facing": twice,
    }


def test_tokens_and_box_report_the_same():
    settings = LIVELY.model_copy(update={"tokens": 255})
    for state in lively_states():
        for agent in range(LIVELY.agents):
            tokens, dropped = tokens_view(state, settings, agent)
            rebuilt = np.zeros((len(FEATURES), 9, 9), np.uint8)
            for index, feature, value in tokens[tokens[:, 1] != 255].tolist():
                assert rebuilt[feature, index >> 4, index & 15] == 0  # no token comes twice
                rebuilt[feature, index >> 4, index & 15] = value
            np.testing.assert_array_equal(rebuilt, box_view(state, settings, agent))
            assert dropped == 0


def test_codes_and_box_report_the_same():
    codes = set()
    for state in lively_states():
        for agent in range(LIVELY.agents):
            cells, knowledge = bytes_view(state, LIVELY, agent).values()
            box = box_view(state, LIVELY, agent)
            layer = {name: box[FEATURE_ID[name]] for name in (*CELL, *SELF)}
            np.testing.assert_array_equal(cells == 1, layer["wall"] == 1)
            np.testing.assert_array_equal((cells == 18) | (cells == 19), layer["agent.friend"] == 1)
            np.testing.assert_array_equal((cells == 19) | (cells == 21), layer["agent.frozen"] > 0)
            is_station = (cells >= 3) & (cells < 18)
            np.testing.assert_array_equal(is_station & (cells % 3 == 2), layer["station.exhausted"] == 1)
            np.testing.assert_array_equal(cells == 0, ~box[: len(CELL)].any(0))
            assert knowledge.tolist() == [layer[name][4, 4] for name in SELF]
            codes |= set(cells.ravel().tolist())
    assert {0, 1, 3, 4, 5, 18, 19, 20, 21} <= codes  # so the comparison saw them


def test_what_is_more_than_a_byte_shows_as_255(world_of):
    world = world_of("### #>M ###", view=3)
    world.agents[0].items["ore"], world.stations[0].cooldown = 300, 256
    box = box_view(world.state(), world.settings, 0)
    assert box[FEATURE_ID["inventory.ore"], 1, 1] == 255
    assert box[FEATURE_ID["station.cooldown"], 1, 2] == 255


@pytest.mark.parametrize("view", [bytes_view, tokens_view, box_view])
def test_a_scene_made_once_for_the_team_changes_nothing(view):
    for state in lively_states():
        for agent in (0, 1):
            shared = view(state, LIVELY, agent, scene_of(state, LIVELY, team=agent % 2))
            assert str(shared) == str(view(state, LIVELY, agent))


def test_every_form_has_the_shape_that_its_spec_says():
    state = World(ArenaSettings(), 1).state()
    forms = {"bytes": bytes_view, "tokens": lambda *observations: tokens_view(*observations)[0], "box": box_view}
    for form, view in forms.items():
        settings = ArenaSettings(observation=form, view=7, tokens=50)
        spec, observations = observation_specs(settings), view(state, settings, 0)
        if form == "bytes":
            assert {name: ArraySpec(part.shape, str(part.dtype)) for name, part in observations.items()} == spec
        else:
            assert ArraySpec(observations.shape, str(observations.dtype)) == spec
    assert observation_specs(ArenaSettings(observation="box", view=7)).shape == (23, 7, 7)
