"""What a match is: who sits where, on which seeds, and how fast. For the process that plays it and for whoever asks."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from pydantic import Field, model_validator

from palaestra.config.base import Frozen

RANDOM, PERSON = "random", "person"
ROLE = "match"  # of its lane
MOST_SEATS = 9
FASTEST = 60.0  # steps a second


class SeatPlan(Frozen):
    """One world. A person plays one agent of it; everybody else there is played by `others`."""

    player: str = Field(min_length=1, max_length=300, description="RUN:EPOCH and the like, 'random' or 'person'")
    others: str = Field(RANDOM, min_length=1, max_length=300, description="beside a person: RUN:EPOCH or 'random'")
    agent: int = Field(0, ge=0, le=1023, description="whom the person plays")

    @property
    def target(self) -> str | None:
        """The checkpoint that plays here, if one does"""
        named = self.others if self.player == PERSON else self.player
        return None if named in {RANDOM, PERSON} else named


class MatchPlan(Frozen):
    seats: tuple[SeatPlan, ...] = Field(min_length=1, max_length=MOST_SEATS)
    env_of: str = Field(
        "", max_length=300, description="the checkpoint whose environment is played; default: the first"
    )
    seed: int = Field(1_000_000, ge=0, lt=1 << 32, description="of the first round; the others follow")
    pace: float = Field(10.0, ge=0, le=FASTEST, description="steps a second; 0: a step for each key")
    rounds: Literal["together", "apart"] = Field("together", description="apart: each begins anew by itself")
    deterministic: bool = Field(default=False, description="the likeliest action instead of a drawn one")
    follow: bool = Field(default=False, description="newer checkpoints take over when a round begins")

    @model_validator(mode="after")
    def _there_is_an_environment(self) -> MatchPlan:
        if not self.env_target:
            raise ValueError("somebody must be a checkpoint, or env_of name one: it says which environment is played")
        if sum(seat.player == PERSON for seat in self.seats) > 1:
            raise ValueError("there is one keyboard, so one person can play")
        return self

    @property
    def env_target(self) -> str:
        return self.env_of or next((seat.target for seat in self.seats if seat.target), "")

    @property
    def has_person(self) -> bool:
        return any(seat.player == PERSON for seat in self.seats)


class MatchSeat(TypedDict):
    player: str
    agent: int | None  # whom a person plays
    run: str | None
    epoch: int | None


class MatchReady(TypedDict):
    env: str
    players: int
    actions: int | None  # null: they cannot be counted
    seats: list[MatchSeat]


class MatchRound(TypedDict):
    seed: int


class NewerCheckpoint(TypedDict):
    target: str
    epoch: int


class MatchError(TypedDict):
    message: str
    hint: str


MatchResult = TypedDict(  # `return` is a word of Python's
    "MatchResult", {"seat": int, "seed": int, "return": float, "length": int}
)


class MatchMessage(TypedDict):
    """What the process of a match reports; one of these at a time."""

    ready: NotRequired[MatchReady]
    round: NotRequired[MatchRound]
    ended: NotRequired[MatchResult]
    newer: NotRequired[NewerCheckpoint]
    error: NotRequired[MatchError]
