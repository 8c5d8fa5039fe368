"""What `palaestra bench` can be asked."""

from __future__ import annotations

from pydantic import Field, field_validator

from palaestra.config.base import Frozen
from palaestra.config.sinks import WandbConfig
from palaestra.core.errors import did_you_mean

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
