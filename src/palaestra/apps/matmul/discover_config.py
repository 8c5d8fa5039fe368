"""What `palaestra discover` can be asked."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from palaestra.apps.matmul import field as fields
from palaestra.apps.matmul.agent_config import AgentConfig, refuse_large
from palaestra.apps.matmul.format import Format, parse_format
from palaestra.apps.matmul.known_ranks import known_rank
from palaestra.apps.matmul.masks import check_fits
from palaestra.apps.matmul.search import Rules
from palaestra.config.base import Frozen
from palaestra.config.sinks import WandbConfig
from palaestra.core.errors import PalaestraError


class SearchSinks(Frozen):
    """Those of a training, without its status table."""

    tensorboard: bool = Field(default=False, description="event files under tensorboard/")
    csv: bool = Field(default=False, description="metrics.csv in the run directory")
    wandb: WandbConfig = Field(default=WandbConfig(), description="Weights & Biases")
    plugins: tuple[str, ...] = Field(default=(), description="further sinks by name, from installed packages")


class DiscoverConfig(Frozen):
    format: str = Field(default="2x2x2", description="rows x inner x columns of the product")
    field: str = Field(
        default="gf2", description="gf2: modulo 2; z: lifted from there to whole numbers; zt: to -1, 0, 1"
    )
    method: Literal["flip", "agent", "auto"] = Field(
        default="flip", description="a walk on the flip graph, the agent that learns, or both side by side"
    )
    seconds: float = Field(
        default=60.0,
        gt=0,
        description="how long this session lasts, at most: the search, and proof, polish and benchmark at its end",
    )
    seed: int = Field(default=1, ge=0, description="the same seed takes the same steps")
    walkers: int = Field(default=1, ge=1, le=256, description="searches side by side, a thread each")
    target: int = Field(default=-1, ge=-1, description="stop at this rank; -1: at the best known, 0: never")
    plus_period: int = Field(default=20_000, ge=1, description="flips without a fall before a row is split")
    margin: int = Field(default=2, ge=0, description="how far above its best rank a walker may climb")
    patience: int = Field(default=20_000_000, ge=1, description="flips without a new best before a walker starts again")
    round_flips: int = Field(default=200_000, ge=1, description="of each walker, between two looks at the clock")
    start: Literal["ladder", "schoolbook", "archive"] = Field(
        default="ladder",
        description="climb from smaller formats, begin with the schoolbook's scheme, or with what discoveries make",
    )
    rung_flips: int = Field(
        default=60_000_000, ge=1, description="without a fall, on a format of the ladder before the next"
    )
    polish: float = Field(default=5.0, ge=0, description="seconds of search for fewer additions, over zt, at the end")
    bench: bool = Field(default=True, description="a first look at the speed of what was found, when it is for numbers")
    pool_size: int = Field(default=4, ge=1, description="schemes kept to start again from")
    sinks: SearchSinks = Field(default=SearchSinks(), description="where figures go besides metrics.db")
    agent: AgentConfig = Field(default_factory=AgentConfig, description="the agent of method=agent and method=auto")

    @field_validator("format")
    @classmethod
    def _is_a_format(cls, text: str) -> str:
        try:
            format_ = parse_format(text)
            check_fits(format_)
        except PalaestraError as error:
            raise ValueError(str(error).rstrip(".")) from error
        return str(format_)

    @field_validator("field")
    @classmethod
    def _can_be_searched(cls, text: str) -> str:
        try:
            field = fields.parse_field(text)
        except PalaestraError as error:
            raise ValueError(str(error).rstrip(".")) from error
        if field not in SEARCHED:
            raise ValueError(f"there is no search over {field} yet; field=gf2, field=zt and field=z can be searched")
        return str(field)

    @model_validator(mode="after")
    def _the_agent_can_play_it(self) -> DiscoverConfig:
        if self.method == "agent":
            try:
                refuse_large(self.product)
            except PalaestraError as error:
                raise ValueError(str(error).rstrip(".")) from error
        return self

    @property
    def product(self) -> Format:
        return parse_format(self.format)

    @property
    def rules(self) -> Rules:
        target = self.target
        if target < 0:
            target = known_rank(self.product, fields.Field(self.field)) or 0
        return Rules(self.plus_period, self.margin, self.patience, self.round_flips, self.pool_size, target)


SEARCHED = (fields.Field.GF2, fields.Field.ZT, fields.Field.Z)
MAY_CHANGE = frozenset({"seconds", "target", "bench", "polish", "sinks"})  # when a search goes on


def changed_keys(stored: dict[str, Any], asked: DiscoverConfig) -> list[str]:
    """What would make the search that is continued another one."""
    wanted, usual = asked.model_dump(mode="json"), DiscoverConfig().model_dump(mode="json")
    return [key for key, value in wanted.items() if key not in MAY_CHANGE and stored.get(key, usual[key]) != value]
