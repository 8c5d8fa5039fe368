"""Settings of `palaestra discover` and `palaestra bench`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from palaestra.apps.matmul.agent.config import AgentConfig, check_fits_agent
from palaestra.apps.matmul.schemes import fields
from palaestra.apps.matmul.schemes.factorization import Format, parse_format
from palaestra.apps.matmul.schemes.known_ranks import known_rank
from palaestra.apps.matmul.search.flip_search import SearchSettings
from palaestra.config.base import RENAMED_SECTIONS, Frozen
from palaestra.config.loggers import WandbConfig
from palaestra.core.errors import PalaestraError, did_you_mean


class SearchLoggersConfig(Frozen):
    """Loggers of a search: those of a training, without the console table."""

    tensorboard: bool = Field(default=False, description="event files under tensorboard/")
    csv: bool = Field(default=False, description="metrics.csv in the run directory")
    wandb: WandbConfig = Field(default=WandbConfig(), description="Weights & Biases")
    plugins: tuple[str, ...] = Field(default=(), description="further loggers by name, from installed packages")


class DiscoverConfig(Frozen):
    renamed_keys = RENAMED_SECTIONS

    format: str = Field(default="2x2x2", description="rows x inner x columns of the product")
    field: str = Field(
        default="gf2",
        description="gf2: modulo 2; z3: modulo 3; zt: coefficients -1, 0, 1; z: integers; q: fractions",
    )
    walk: Literal["auto", "gf2", "z3", "zt"] = Field(
        default="auto",
        description="ring of the walk, whose schemes are lifted to the field; auto: gf2, and zt for z3 and q",
    )
    method: Literal["flip", "agent", "auto"] = Field(
        default="flip", description="flip: walk on the flip graph; agent: the learning agent; auto: both in parallel"
    )
    seconds: float = Field(
        default=60.0,
        gt=0,
        description="time limit of this session, including verification, polish and benchmark at the end",
    )
    seed: int = Field(default=1, ge=0, description="a seed determines every step")
    walkers: int = Field(default=1, ge=1, le=256, description="parallel walks, one thread each")
    target: int = Field(default=-1, ge=-1, description="stop at this rank; -1: the best known rank, 0: never")
    plus_period: int = Field(default=20_000, ge=1, description="flips without a reduction before a plus transition")
    margin: int = Field(default=2, ge=0, description="how far a plus may raise the rank above a walker's best")
    patience: int = Field(default=20_000_000, ge=1, description="flips without a new best before a walker restarts")
    round_flips: int = Field(default=200_000, ge=1, description="flips of each walker between checks of time and stop")
    start: str = Field(
        default="ladder",
        min_length=1,
        description="ladder: extend smaller formats; naive; archive: built from archived discoveries; "
        "or a scheme: a file, or the id of a discovery",
    )
    rung_flips: int = Field(
        default=60_000_000, ge=1, description="flips without a reduction before the next format of the ladder"
    )
    polish: float = Field(default=5.0, ge=0, description="seconds to reduce additions at the end, for schemes over zt")
    bench: bool = Field(default=True, description="a brief benchmark of the scheme at the end, if it is over zt or z")
    pool_size: int = Field(default=4, ge=1, description="schemes kept for restarts")
    loggers: SearchLoggersConfig = Field(default=SearchLoggersConfig(), description="loggers besides metrics.db")
    agent: AgentConfig = Field(
        default_factory=AgentConfig, description="settings of the agent, for method=agent and method=auto"
    )

    @field_validator("format")
    @classmethod
    def _validate_format(cls, text: str) -> str:
        try:
            format_ = parse_format(text)
        except PalaestraError as error:
            raise ValueError(str(error).rstrip(".")) from error
        return str(format_)

    @field_validator("start", mode="before")
    @classmethod
    def _accept_old_start(cls, value: Any) -> Any:
        """Version 0.1 called the naive scheme the schoolbook's."""
        return "naive" if value == "schoolbook" else value

    @field_validator("field")
    @classmethod
    def _validate_field(cls, text: str) -> str:
        try:
            field = fields.parse_field(text)
        except PalaestraError as error:
            raise ValueError(str(error).rstrip(".")) from error
        if field not in SEARCHED_FIELDS:
            raise ValueError(f"no search over {field}; choose one of {', '.join(SEARCHED_FIELDS)}")
        return str(field)

    @model_validator(mode="after")
    def _validate_agent_format(self) -> DiscoverConfig:
        if self.method == "agent":
            try:
                check_fits_agent(self.product)
            except PalaestraError as error:
                raise ValueError(str(error).rstrip(".")) from error
        return self

    @model_validator(mode="after")
    def _validate_walk(self) -> DiscoverConfig:
        field = fields.Field(self.field)
        if self.ring not in WALKED_RINGS[field]:
            raise ValueError(f"walk={self.walk} gives no scheme over {field}; use {' or '.join(WALKED_RINGS[field])}")
        if self.method != "flip" and (field not in AGENT_FIELDS or self.walk != "auto"):
            raise ValueError(f"method={self.method} searches over {', '.join(AGENT_FIELDS)} and has no walk setting")
        return self

    @property
    def ring(self) -> fields.Field:
        """The ring of the walk."""
        return WALKED_RINGS[fields.Field(self.field)][0] if self.walk == "auto" else fields.Field(self.walk)

    @property
    def product(self) -> Format:
        return parse_format(self.format)

    @property
    def search_settings(self) -> SearchSettings:
        target = self.target
        if target < 0:
            target = known_rank(self.product, fields.Field(self.field)) or 0
        return SearchSettings(self.plus_period, self.margin, self.patience, self.round_flips, self.pool_size, target)


# By field the rings from whose schemes one over the field can result; the first is the default.
WALKED_RINGS = {
    fields.Field.GF2: (fields.Field.GF2,),
    fields.Field.Z3: (fields.Field.ZT, fields.Field.Z3),
    fields.Field.ZT: (fields.Field.GF2, fields.Field.ZT, fields.Field.Z3),
    fields.Field.Z: (fields.Field.GF2, fields.Field.ZT, fields.Field.Z3),
    fields.Field.Q: (fields.Field.ZT, fields.Field.Z3, fields.Field.GF2),
}
SEARCHED_FIELDS = tuple(WALKED_RINGS)
AGENT_FIELDS = (fields.Field.GF2, fields.Field.ZT, fields.Field.Z)
CHANGEABLE_KEYS = frozenset({"seconds", "target", "bench", "polish", "loggers"})  # when a search is resumed


def changed_keys(stored: dict[str, Any], requested: DiscoverConfig) -> list[str]:
    """Keys that differ from the stored search and must not change."""
    before = DiscoverConfig.model_validate(stored).model_dump(mode="json")
    after = requested.model_dump(mode="json")
    return [key for key, value in after.items() if key not in CHANGEABLE_KEYS and before[key] != value]


DTYPES = ("float32", "float64", "int64", "modular", "object")
SIZES = (64, 127, 128, 255, 256, 511, 512, 1000, 1024, 1025, 2047, 2048, 3072, 4095, 4096)


class BenchConfig(Frozen):
    dtypes: tuple[str, ...] = Field(default=DTYPES, description="number types: " + ", ".join(DTYPES))
    sizes: tuple[int, ...] = Field(default=SIZES, description="sides of the square matrices")
    object_sizes: tuple[int, ...] = Field(default=(8, 16), description="sides of the matrices of Python integers")
    bits: tuple[int, ...] = Field(default=(1024, 8192), description="bit lengths of Python integers")
    modulus: int = Field(default=65_521, ge=2, le=1 << 20, description="modulus of 'modular'")
    threads: int = Field(default=1, ge=1, le=256, description="threads of BLAS and of the compiled kernels")
    levels: int = Field(default=3, ge=1, le=4, description="maximum recursion depth of the scheme")
    smallest_block: int = Field(default=32, ge=1, description="minimum side of a block")
    seconds: float = Field(default=2.0, gt=0, description="seconds for each comparison")
    longest: float = Field(
        default=20.0, gt=0, description="skip baselines whose single product would take more seconds"
    )
    seed: int = Field(default=1, ge=0, description="seed of the matrix entries")
    wandb: WandbConfig = Field(default=WandbConfig(), description="log the table to the W&B run that found the scheme")

    @field_validator("dtypes")
    @classmethod
    def _validate_dtypes(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        for word in words:
            if word not in DTYPES:
                raise ValueError(f"no dtype named '{word}'. {did_you_mean(word, DTYPES)}".strip())
        return words

    @field_validator("sizes", "object_sizes", "bits")
    @classmethod
    def _validate_sizes(cls, values: tuple[int, ...]) -> tuple[int, ...]:
        if any(not 1 <= value <= 65_536 for value in values):
            raise ValueError("sizes must be between 1 and 65536")
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
"""The brief benchmark at the end of a search."""
