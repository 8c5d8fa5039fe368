"""What can be set is checked at the door, and everything that is wrong is told at once."""

import pytest

from palaestra.apps.arena.settings import ArenaSettings, StationSettings, read_settings
from palaestra.core.errors import UsageError


def refusal(**kwargs):
    with pytest.raises(UsageError) as caught:
        read_settings(kwargs)
    return str(caught.value)


def test_the_defaults_can_be_built():
    settings = read_settings({})
    assert settings.station_count == 9
    assert settings.radius == 5
    assert [station.count for station in settings.stations] == [4, 3, 2, 0, 0]


def test_the_costs_are_those_of_the_page():
    settings = ArenaSettings()
    assert [station.cost for station in settings.stations[1:]] == [1, 3, 3, 1]


def test_what_is_not_given_of_a_station_stays_as_that_kind_has_it():
    assert read_settings({"altar": {"count": 5}}).altar == StationSettings(count=5, cost=3, cooldown=8)
    assert read_settings({"altar": StationSettings(count=5)}).altar.cost == 1  # given whole


def test_everything_that_is_wrong_stands_in_one_message():
    assert refusal(agnets=3, agents=0, view=17, mine={"cuont": 1, "cost": -1}) == (
        "This arena cannot be built: agents=0 must be at least 1; mine.cost=-1 must be at least 0; "
        "there is no setting 'mine.cuont' (did you mean 'count'?); view=17 must be at most 15; "
        "there is no setting 'agnets' (did you mean 'agents'?)."
    )


def test_settings_that_do_not_go_together_are_reported_together():
    message = refusal(view=4, sight=6, inventory={"ore": 60})
    assert "view=4 has no middle; try 3 or 5" in message
    assert "sight=6 is more than the 2 cells that view=4 shows each way" in message
    assert "inventory.ore=60 is more than limit=50" in message


@pytest.mark.parametrize(
    ("kwargs", "complaint"),
    [
        ({"rewards": {"hart": 1}}, "rewards: there is no item 'hart' (did you mean 'heart'?)"),
        ({"reward_caps": {"q": 1}}, "there is no item 'q' (there are ore, battery, heart, armour, charge)"),
        ({"inventory": {"ore": -1}}, "inventory: ore=-1 must be from 0 to 65535"),
        ({"rewards": {"heart": float("nan")}}, "rewards.heart=nan must be a finite number"),
        ({"rewards": {"heart": "much"}}, "rewards.heart='much' must be a number"),
        ({"rewards": 3}, "rewards=3 must be a table of names and values"),
        ({"mine": 3}, "mine=3 must be a table of names and values"),
        ({"agents": 2.5}, "agents=2.5 must be a whole number"),
        ({"agents": True}, "agents=True must be a number, not true or false"),
        ({"combat": 7}, "combat=7 must be true or false"),
        ({"observation": "byte"}, "observation='byte' must be 'bytes', 'tokens' or 'box'"),
        ({"teams": 5}, "teams=5 must be at most 4"),
    ],
)
def test_a_wrong_value_is_named_with_what_would_be_right(kwargs, complaint):
    assert complaint in refusal(**kwargs)


def test_a_map_too_small_for_its_agents_and_stations_is_refused_with_the_numbers():
    message = refusal(width=7, height=6, agents=3, mine={"count": 3}, generator={"count": 0}, altar={"count": 2})
    assert "a map of 7 x 6 has 20 cells inside its walls" in message
    assert "agents=3 (one cell each) and stations=5 (four each) want 23" in message


def test_a_map_that_is_just_large_enough_is_built():
    stations = {"mine": {"count": 2}, "generator": {"count": 0}, "altar": {"count": 2}}
    assert read_settings({"width": 7, "height": 6, "agents": 4, **stations}).station_count == 4
