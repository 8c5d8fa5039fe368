"""Everything that can be set about a world, checked at the door. These are the env.kwargs of `palaestra/Arena-v0`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from palaestra.apps.arena.tables import ITEMS, STATIONS
from palaestra.config.base import Frozen
from palaestra.contracts.errors import UsageError, did_you_mean

ObservationForm = Literal["bytes", "tokens", "box"]
LARGEST_SIDE = 128
MAX_TEAMS = 4


class StationSettings(Frozen):
    count: int = Field(0, ge=0, le=256, description="how many of them a map has")
    cost: int = Field(1, ge=0, le=255, description="ingredients per use; a mine needs none")
    cooldown: int = Field(4, ge=0, le=255, description="steps after a use until the next")
    stock: int | None = Field(None, ge=1, le=65_535, description="uses per episode; null: endless")


class ArenaSettings(Frozen):
    # the people
    agents: int = Field(1, ge=1, le=1024, description="agents in one world")
    teams: int = Field(1, ge=1, le=MAX_TEAMS, description="agent k is of team k modulo teams")
    team_share: float = Field(0.0, ge=0, le=1, description="part of each reward that is the mean of one's team")
    # the map
    width: int = Field(25, ge=5, le=LARGEST_SIDE, description="cells, the outer wall included")
    height: int = Field(25, ge=5, le=LARGEST_SIDE, description="cells, the outer wall included")
    room: int = Field(0, ge=0, le=LARGEST_SIDE, description="cells along the side of a room; 0: no rooms")
    walls: int = Field(0, ge=0, le=1024, description="short pieces of wall strewn about")
    # the stations
    mine: StationSettings = Field(StationSettings(count=4, cost=0), description="gives ore")
    generator: StationSettings = Field(StationSettings(count=3), description="ore to battery")
    altar: StationSettings = Field(StationSettings(count=2, cost=3, cooldown=8), description="batteries to heart")
    armoury: StationSettings = Field(StationSettings(cost=3), description="ore to armour")
    charger: StationSettings = Field(StationSettings(), description="battery to charge, which an attack spends")
    # what agents carry
    inventory: dict[str, int] = Field(default_factory=dict, description="items at the start, by name")
    limit: int = Field(50, ge=1, le=255, description="most of each item that an agent can carry")
    # what counts
    rewards: dict[str, float] = Field({"heart": 1.0}, description="for each item gained, by name")
    reward_caps: dict[str, int] = Field(
        default_factory=dict, description="most of each item that is rewarded in an episode"
    )
    # combat
    combat: bool = Field(False, description="whether attacks do anything")
    reach: int = Field(3, ge=1, le=15, description="cells that an attack goes straight ahead")
    freeze: int = Field(8, ge=1, le=255, description="steps that whoever is hit cannot act")
    steal: int = Field(2, ge=0, le=255, description="most of ore, battery and heart each that a hit takes")
    # what is seen
    observation: ObservationForm = Field("bytes", description="form of what an agent sees")
    view: int = Field(11, ge=3, le=15, description="cells along the side of the square around an agent; odd")
    sight: int | None = Field(
        None, ge=1, le=7, description="how far it really sees; the rest is unknown; default: the whole view"
    )
    show_state: bool = Field(True, description="whether cooldown and stock of stations can be seen")
    tokens: int = Field(96, ge=16, le=255, description="most tokens in an observation; further ones are dropped")
    # time
    max_steps: int = Field(256, ge=1, le=1_000_000, description="time limit, a truncation")

    @property
    def stations(self) -> tuple[StationSettings, ...]:
        return tuple(getattr(self, name) for name in STATIONS)

    @property
    def station_count(self) -> int:
        return sum(station.count for station in self.stations)

    @property
    def radius(self) -> int:
        return self.view // 2

    @field_validator("inventory", "rewards", "reward_caps")
    @classmethod
    def _known_items(cls, table: dict[str, Any]) -> dict[str, Any]:
        for name in table:
            if name not in ITEMS:
                near = did_you_mean(name, ITEMS)
                raise ValueError(f"there is no item '{name}'; {near or 'known: ' + ', '.join(ITEMS)}")
        return table

    @field_validator("reward_caps", "inventory")
    @classmethod
    def _not_negative(cls, table: dict[str, int]) -> dict[str, int]:
        for name, value in table.items():
            if not 0 <= value <= 65_535:
                raise ValueError(f"{name}={value} must be from 0 to 65535")
        return table

    @model_validator(mode="after")
    def _fits(self) -> ArenaSettings:
        if self.view % 2 == 0:
            raise ValueError(f"view={self.view} has no middle; try view={self.view - 1} or view={self.view + 1}")
        if self.sight is not None and self.sight > self.radius:
            raise ValueError(f"sight={self.sight} goes beyond view={self.view}, which shows {self.radius} cells each way")
        for name, count in self.inventory.items():
            if count > self.limit:
                raise ValueError(f"inventory {name}={count} is more than limit={self.limit} allows")
        self._refuse_crowding()
        return self

    def _refuse_crowding(self) -> None:
        """Stations are spread so that none closes a way; that wants four cells for each."""
        inside = (self.width - 2) * (self.height - 2)
        wanted = self.agents + 4 * self.station_count
        if wanted > inside:
            raise ValueError(
                f"a map of {self.width} x {self.height} has {inside} cells inside its walls; {self.agents} agents and "
                f"{self.station_count} stations want {wanted} (one for an agent, four for a station); "
                "make it larger, or put less into it"
            )


def read_settings(kwargs: dict[str, Any]) -> ArenaSettings:
    """From env.kwargs; what is wrong with them is told all at once."""
    try:
        return ArenaSettings(**kwargs)
    except ValidationError as error:
        raise UsageError(f"This arena cannot be built: {'; '.join(_complaints(error))}.") from error


def _complaints(error: ValidationError) -> list[str]:
    return [_complaint(problem) for problem in error.errors()]


def _complaint(problem: Any) -> str:
    name = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        known = StationSettings.model_fields if len(problem["loc"]) > 1 else ArenaSettings.model_fields
        return f"there is no setting '{name}'. {did_you_mean(str(problem['loc'][-1]), known)}".rstrip("?. ")
    message = problem["msg"].removeprefix("Value error, ")
    if not name:
        return str(message)
    value = f"={problem['input']!r}" if isinstance(problem["input"], int | float | str) else ""
    return f"{name}{value}: {message[0].lower()}{message[1:]}"
