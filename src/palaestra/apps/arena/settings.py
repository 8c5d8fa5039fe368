"""The validated settings of a world: the env.kwargs of `palaestra/Arena-v0`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from palaestra.apps.arena.tables import ITEMS, STATIONS
from palaestra.config.base import Frozen
from palaestra.core.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ObservationForm = Literal["bytes", "tokens", "box"]
LARGEST_SIDE = 128
MAX_TEAMS = 4
LARGEST_COUNT = 65_535
SCALARS = (bool, int, float, str, type(None))


class StationSettings(Frozen):
    count: int = Field(default=0, ge=0, le=256, description="how many of them a map has")
    cost: int = Field(default=1, ge=0, le=255, description="ingredients per use; a mine needs none")
    cooldown: int = Field(default=4, ge=0, le=255, description="steps after a use until the next")
    stock: int | None = Field(default=None, ge=1, le=65_535, description="uses per episode; null: endless")


class ArenaSettings(Frozen):
    # agents
    agents: int = Field(1, ge=1, le=1024, description="agents in one world")
    teams: int = Field(1, ge=1, le=MAX_TEAMS, description="agent k is of team k modulo teams")
    team_share: float = Field(0.0, ge=0, le=1, description="part of each reward that is the mean of one's team")
    # map
    width: int = Field(25, ge=5, le=LARGEST_SIDE, description="cells, the outer wall included")
    height: int = Field(25, ge=5, le=LARGEST_SIDE, description="cells, the outer wall included")
    room: int = Field(0, ge=0, le=LARGEST_SIDE, description="cells along the side of a room; 0: no rooms")
    walls: int = Field(0, ge=0, le=1024, description="short pieces of wall strewn about")
    # stations
    mine: StationSettings = Field(StationSettings(count=4, cost=0), description="gives ore")
    generator: StationSettings = Field(StationSettings(count=3), description="ore to battery")
    altar: StationSettings = Field(StationSettings(count=2, cost=3, cooldown=8), description="batteries to heart")
    armoury: StationSettings = Field(StationSettings(cost=3), description="ore to armour")
    charger: StationSettings = Field(StationSettings(), description="battery to charge, which an attack spends")
    # items
    inventory: dict[str, int] = Field(default_factory=dict, description="items at the start, by name")
    limit: int = Field(50, ge=1, le=255, description="most of each item that an agent can carry")
    # rewards
    rewards: dict[str, float] = Field({"heart": 1.0}, description="for each item gained, by name")
    reward_caps: dict[str, int] = Field(
        default_factory=dict, description="most of each item that is rewarded in an episode"
    )
    # combat
    combat: bool = Field(default=False, description="whether attacks do anything")
    reach: int = Field(3, ge=1, le=15, description="cells that an attack goes straight ahead")
    freeze: int = Field(8, ge=1, le=255, description="steps that whoever is hit cannot act")
    steal: int = Field(2, ge=0, le=255, description="most of ore, battery and heart each that a hit takes")
    # observation
    observation: ObservationForm = Field("bytes", description="form of what an agent sees")
    view: int = Field(11, ge=3, le=15, description="cells along the side of the square around an agent; odd")
    sight: int | None = Field(
        None, ge=1, le=7, description="how far it really sees; the rest is unknown; default: the whole view"
    )
    show_state: bool = Field(default=True, description="whether cooldown and stock of stations can be seen")
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

    @field_validator(*STATIONS, mode="before")
    @classmethod
    def _keep_what_is_not_given(cls, value: Any, info: ValidationInfo) -> Any:
        """`altar: {count: 3}` changes the count and keeps an altar's other defaults."""
        if not isinstance(value, dict):
            return value
        return cls.model_fields[str(info.field_name)].default.model_dump() | value

    @field_validator("inventory", "rewards", "reward_caps")
    @classmethod
    def _known_items(cls, table: dict[str, Any]) -> dict[str, Any]:
        _raise_all(f"there is no item '{name}'{_near(name, ITEMS)}" for name in table if name not in ITEMS)
        return table

    @field_validator("reward_caps", "inventory")
    @classmethod
    def _in_range(cls, table: dict[str, int]) -> dict[str, int]:
        _raise_all(
            f"{name}={value} must be from 0 to {LARGEST_COUNT}"
            for name, value in table.items()
            if not 0 <= value <= LARGEST_COUNT
        )
        return table

    @model_validator(mode="after")
    def _fits(self) -> ArenaSettings:
        _raise_all(self._misfits())
        return self

    def _misfits(self) -> Iterator[str]:
        if self.view % 2 == 0:
            yield f"view={self.view} has no middle; try {self.view - 1} or {self.view + 1}"
        if self.sight is not None and self.sight > self.radius:
            yield f"sight={self.sight} is more than the {self.radius} cells that view={self.view} shows each way"
        for name, count in self.inventory.items():
            if count > self.limit:
                yield f"inventory.{name}={count} is more than limit={self.limit}"
        inside = (self.width - 2) * (self.height - 2)
        wanted = self.agents + 4 * self.station_count  # so that stations never block a path
        if wanted > inside:
            yield (
                f"a map of {self.width} x {self.height} has {inside} cells inside its walls; agents={self.agents} "
                f"(one cell each) and stations={self.station_count} (four each) want {wanted}; "
                "make it larger, or put less into it"
            )


def read_settings(kwargs: dict[str, Any]) -> ArenaSettings:
    """Settings from env.kwargs; all errors are reported at once."""
    try:
        return ArenaSettings(**kwargs)
    except ValidationError as error:
        errors = "; ".join(_describe_error(problem) for problem in error.errors())
        raise UsageError(f"This arena cannot be built: {errors}.") from error


def _raise_all(errors: Iterable[str]) -> None:
    message = "; ".join(errors)
    if message:
        raise ValueError(message)


def _near(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'heart'?)`, or all names without a near one."""
    names = tuple(known)
    guess = did_you_mean(word, names)
    return f" ({guess[0].lower()}{guess[1:]})" if guess else f" (there are {', '.join(names)})"


def _describe_error(problem: Any) -> str:
    kind, location, value = problem["type"], problem["loc"], problem["input"]
    name = ".".join(str(part) for part in location)
    if kind == "extra_forbidden":
        known = StationSettings.model_fields if len(location) > 1 else ArenaSettings.model_fields
        return f"there is no setting '{name}'{_near(str(location[-1]), known)}"
    if kind == "value_error" and not (location and isinstance(value, SCALARS)):  # such messages contain the value
        message = str(problem["ctx"]["error"])
        return f"{name}: {message}" if name else message
    shown = f"={value!r}" if isinstance(value, SCALARS) else ""
    return f"{name}{shown} {_expected(problem)}"


def _expected(problem: Any) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "greater_than_equal":
        return f"must be at least {context['ge']:g}"
    if kind == "less_than_equal":
        return f"must be at most {context['le']:g}"
    if kind == "literal_error":
        return f"must be {context['expected']}"
    wanted = {"int": "a whole number", "float": "a number", "finite": "a finite number", "bool": "true or false"}
    wanted |= {"dict": "a table of names and values", "model": "a table of names and values"}
    first_word = kind.split("_")[0]
    if first_word in wanted:
        return f"must be {wanted[first_word]}"
    return str(problem["msg"]).removeprefix("Value error, ")
