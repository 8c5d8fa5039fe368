"""What `palaestra discover` can be asked."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from palaestra.apps.matmul.agent.config import AgentConfig, refuse_large
from palaestra.apps.matmul.schemes import fields
from palaestra.apps.matmul.schemes.bit_masks import check_fits
from palaestra.apps.matmul.schemes.factorization import Format, parse_format
from palaestra.apps.matmul.schemes.known_ranks import known_rank
from palaestra.apps.matmul.search.flip_search import SearchSettings
from palaestra.config.base import RENAMED_SECTIONS, Frozen
from palaestra.config.loggers import WandbConfig
from palaestra.core.errors import PalaestraError, did_you_mean


class SearchLoggersConfig(Frozen):
    """Those of a training, without its status table."""

    tensorboard: bool = Field(default=False, description="event files under tensorboard/")
    csv: bool = Field(default=False, description="metrics.csv in the run directory")
    wandb: WandbConfig = Field(default=WandbConfig(), description="Weights & Biases")
    plugins: tuple[str, ...] = Field(default=(), description="further loggers by name, from installed packages")


class DiscoverConfig(Frozen):
    renamed_keys = RENAMED_SECTIONS

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
    loggers: SearchLoggersConfig = Field(
        default=SearchLoggersConfig(), description="where metrics go, besides metrics.db"
    )
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
    def search_settings(self) -> SearchSettings:
        target = self.target
        if target < 0:
            target = known_rank(self.product, fields.Field(self.field)) or 0
        return SearchSettings(self.plus_period, self.margin, self.patience, self.round_flips, self.pool_size, target)


SEARCHED = (fields.Field.GF2, fields.Field.ZT, fields.Field.Z)
MAY_CHANGE = frozenset({"seconds", "target", "bench", "polish", "loggers"})  # when a search goes on


def changed_keys(stored: dict[str, Any], asked: DiscoverConfig) -> list[str]:
    """What would make the search that is continued another one."""
    wanted, usual = asked.model_dump(mode="json"), DiscoverConfig().model_dump(mode="json")
    return [key for key, value in wanted.items() if key not in MAY_CHANGE and stored.get(key, usual[key]) != value]


DTYPES = ("float32", "float64", "int64", "modular", "object")
SIZES = (64, 127, 128, 255, 256, 511, 512, 1000, 1024, 1025, 2047, 2048, 3072, 4095, 4096)


class BenchConfig(Frozen):
    dtypes: tuple[str, ...] = Field(default=DTYPES, description="types of numbers, of " + ", ".join(DTYPES))
    sizes: tuple[int, ...] = Field(default=SIZES, description="sides of the square matrices")
    object_sizes: tuple[int, ...] = Field(default=(8, 16), description="sides for Python's own integers")
    bits: tuple[int, ...] = Field(default=(1024, 8192), description="lengths of Python's own integers")
    modulus: int = Field(default=65_521, ge=2, le=1 << 20, description="of 'modular'")
    threads: int = Field(default=1, ge=1, le=256, description="of BLAS and of our own kernels alike")
    levels: int = Field(default=3, ge=1, le=4, description="how often the scheme is applied inside itself, at most")
    smallest_block: int = Field(default=32, ge=1, description="no level leads to blocks below this side")
    seconds: float = Field(default=2.0, gt=0, description="for each comparison")
    longest: float = Field(default=20.0, gt=0, description="seconds; a single product that would take more is left out")
    seed: int = Field(default=1, ge=0, description="of the entries")
    wandb: WandbConfig = Field(default=WandbConfig(), description="the table also to W&B, to the run that found it")

    @field_validator("dtypes")
    @classmethod
    def _known(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        for word in words:
            if word not in DTYPES:
                raise ValueError(f"no dtype is called '{word}'. {did_you_mean(word, DTYPES)}".strip())
        return words

    @field_validator("sizes", "object_sizes", "bits")
    @classmethod
    def _positive(cls, values: tuple[int, ...]) -> tuple[int, ...]:
        if any(not 1 <= value <= 65_536 for value in values):
            raise ValueError("sizes go from 1 to 65536")
        return values


BRIEF = BenchConfig(
    dtypes=("float64", "int64", "object"),
    sizes=(256, 512),
    object_sizes=(8,),
    bits=(8192,),
    levels=1,
    seconds=0.3,
    longest=2.0,
)
"""At the end of a search: a first look, in a few seconds."""
