"""What a match is: who plays on which seats, on which seeds, at what pace; and the messages that it publishes."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from pydantic import Field, model_validator

from palaestra.config.base import Frozen

RANDOM, PERSON = "random", "person"
ROLE = "match"  # of its frame buffer
MOST_SEATS = 9
FASTEST = 60.0  # steps per second


class SeatPlan(Frozen):
    """One environment. A person plays one of its agents; `others` plays the rest."""

    player: str = Field(min_length=1, max_length=300, description="RUN:EPOCH and the like, 'random' or 'person'")
    others: str = Field(RANDOM, min_length=1, max_length=300, description="beside a person: RUN:EPOCH or 'random'")
    agent: int = Field(0, ge=0, le=1023, description="the agent that the person plays")

    @property
    def target(self) -> str | None:
        """The checkpoint that plays here, if any."""
        named = self.others if self.player == PERSON else self.player
        return None if named in {RANDOM, PERSON} else named


class MatchPlan(Frozen):
    seats: tuple[SeatPlan, ...] = Field(min_length=1, max_length=MOST_SEATS)
    env_of: str = Field(
        "", max_length=300, description="the checkpoint whose environment is played; default: the first"
    )
    seed: int = Field(1_000_000, ge=0, lt=1 << 32, description="of the first round; later rounds count up")
    pace: float = Field(10.0, ge=0, le=FASTEST, description="steps per second; 0: one step per key press")
    rounds: Literal["together", "apart"] = Field("together", description="apart: seats start their episodes alone")
    deterministic: bool = Field(default=False, description="the most likely action instead of a sampled one")
    follow: bool = Field(default=False, description="newer checkpoints take over at the start of a round")

    @model_validator(mode="after")
    def _require_environment(self) -> MatchPlan:
        if not self.env_target:
            raise ValueError("one player, or env_of, must be a checkpoint: it decides which environment is played")
        if sum(seat.player == PERSON for seat in self.seats) > 1:
            raise ValueError("at most one seat can be played by a person")
        return self

    @property
    def env_target(self) -> str:
        return self.env_of or next((seat.target for seat in self.seats if seat.target), "")

    @property
    def has_person(self) -> bool:
        return any(seat.player == PERSON for seat in self.seats)


class MatchSeat(TypedDict):
    player: str
    agent: int | None  # that a person plays
    run: str | None
    epoch: int | None


class MatchReady(TypedDict):
    env: str
    players: int
    actions: int | None  # null: not discrete
    seats: list[MatchSeat]


class MatchRound(TypedDict):
    seed: int


class NewerCheckpoint(TypedDict):
    target: str
    epoch: int


class MatchError(TypedDict):
    message: str
    hint: str


MatchResult = TypedDict(  # `return` is a keyword of Python
    "MatchResult", {"seat": int, "seed": int, "return": float, "length": int}
)


class MatchMessage(TypedDict):
    """What the process of a match publishes; one of these at a time."""

    ready: NotRequired[MatchReady]
    round: NotRequired[MatchRound]
    ended: NotRequired[MatchResult]
    newer: NotRequired[NewerCheckpoint]
    error: NotRequired[MatchError]
