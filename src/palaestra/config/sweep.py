"""What a sweep is asked to try: validated like every other configuration, from words or from a YAML file."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from palaestra.config.base import Frozen
from palaestra.core.errors import UsageError

MAX_TRIALS = 1_000
MAX_SEEDS = 1_000
LAST_SEED = 2**31 - 1
SPAN = re.compile(r"(\d+)\.\.(\d+)")
DEFAULT_TRIALS = 20


class SweepConfig(Frozen):
    name: str = Field(default="", description="name of the sweep and, with a number, of its runs; default: generated")
    recipe: str = Field(default="", description="recipe to train; empty: the defaults of all keys")
    method: Literal["auto", "grid", "random", "optuna"] = Field(
        default="auto", description="auto: grid if all values are listed, else random; optuna: Bayesian optimisation"
    )
    trials: int | None = Field(
        default=None, ge=1, le=MAX_TRIALS, description=f"number of trials; default: {DEFAULT_TRIALS}, or all of a grid"
    )
    metric: str = Field(
        default="score", min_length=1, description="score (evaluations), return (training), or a metric's name"
    )
    direction: Literal["maximize", "minimize"] = Field(
        default="maximize", description="whether larger or smaller values are better"
    )
    seeds: tuple[int, ...] = Field(
        default=(), description="1..3 or 1,5: every trial trains with each seed, its value is the mean; empty: `seed`"
    )
    sampler_seed: int = Field(default=0, ge=0, description="seed of the sampler: the same seed gives the same trials")
    prune: bool = Field(
        default=False, description="stop trials that are in the worse half at 20, 40 and 80 % of their steps"
    )
    parameters: dict[str, Any] = Field(default_factory=dict, description="key: range as text, or a list of values")
    settings: dict[str, Any] = Field(default_factory=dict, description="key: value, the same in all trials")

    @field_validator("seeds", mode="before")
    @classmethod
    def _parse_seed_text(cls, value: Any) -> Any:
        try:
            if isinstance(value, str | int) and not isinstance(value, bool):
                return parse_seeds(str(value))
            if isinstance(value, list | tuple) and value:
                return parse_seeds(",".join(map(str, value)))
        except UsageError as error:
            raise ValueError(str(error).rstrip(".")) from error
        return value

    @model_validator(mode="after")
    def _refuse_seed_with_seeds(self) -> SweepConfig:
        if self.seeds and ("seed" in self.parameters or "seed" in self.settings):
            raise ValueError("seeds and seed cannot both be set; keep one of them")
        return self


def parse_seeds(text: str) -> tuple[int, ...]:
    """`1..5`, `1,3,7` or `1..3,10`, in the order given; each seed once."""
    seeds: list[int] = []
    for part in (piece.strip() for piece in text.split(",")):
        seeds += _span(part, text)
        if len(seeds) > MAX_SEEDS:
            raise UsageError(f"'{text}' is more than {MAX_SEEDS} seeds.", "A few are enough for an interval.")
    twice = next((seed for seed in seeds if seeds.count(seed) > 1), None)
    if twice is not None:
        raise UsageError(f"'{text}' has the seed {twice} more than once.", "A run is the same with the same seed.")
    return tuple(seeds)


def _span(part: str, text: str) -> range:
    found = SPAN.fullmatch(part)
    first, last = (found[1], found[2]) if found else (part, part)
    if not (first.isascii() and first.isdigit() and last.isdigit()) or int(last[:12]) > LAST_SEED:
        hint = "Write 1..5 for five seeds, or 1,3,7 for three."
        raise UsageError(f"'{text}' is no list of seeds: '{part}' is not a whole number up to {LAST_SEED}.", hint)
    if int(first) > int(last):
        raise UsageError(f"'{text}' is an empty list of seeds: {first} is above {last}.", f"Write {last}..{first}.")
    if int(last) - int(first) >= MAX_SEEDS:
        raise UsageError(f"'{text}' is more than {MAX_SEEDS} seeds.", "A few are enough for an interval.")
    return range(int(first), int(last) + 1)
