"""What came back from a worker: text, believed only after it was checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from palaestra.core.episodes import EpisodeResult

if TYPE_CHECKING:
    from palaestra.core.evaluation import EvaluationPlan

LARGEST_ANSWER = 64 << 20  # characters
MOST_FILES = 100_000  # of a package


class Garbage(Exception):
    """Not an answer to what was asked."""


@dataclass(frozen=True)
class Refusal:
    """The worker is well, but this cannot be played; asking again would not help."""

    message: str
    hint: str
    exit_code: int


@dataclass(frozen=True)
class OtherCode:
    """What a worker has that differs from what the share was sent with."""

    versions: tuple[str, ...]  # `torch 2.9.1 (here 2.10.0)`
    package: dict[str, str] | None  # hashes of its files of Palaestra; None: they are the same
    modules: dict[str, dict[str, str]]  # by the user's module that differs: hashes of its files there

    @property
    def concerns_all(self) -> bool:
        """Every request, not only those that import the module."""
        return bool(self.versions) or self.package is not None


@dataclass(frozen=True)
class Worker:
    host: str
    node: str  # Ray's id of the node; empty outside of Ray


@dataclass(frozen=True)
class CodeRefusal:
    """The worker has other code, and that was not accepted."""

    worker: Worker
    code: OtherCode


@dataclass(frozen=True)
class Played:
    episodes: tuple[EpisodeResult, ...]  # in the order of the share's seeds
    seconds: float
    worker: Worker = Worker("", "")
    code: OtherCode | None = None  # that played them, where it differs and was accepted


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Row(_Strict):
    seed: int
    total_reward: float
    length: int = Field(ge=0)
    terminated: bool
    env_index: int
    env_step: int
    extras: dict[str, float]
    capped: bool = False


class _Refused(_Strict):
    message: str
    hint: str
    exit_code: int = Field(ge=1, le=255)


class _OtherCode(_Strict):
    versions: list[str] = Field(max_length=64)
    package: dict[str, str] | None = Field(max_length=MOST_FILES)
    modules: dict[str, dict[str, str]] = Field(max_length=64)


class _Answer(_Strict):
    host: str
    pid: int
    node: str = ""
    other_code: _OtherCode | None = None
    episodes: list[_Row] = Field(default_factory=list)
    seconds: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    refused: _Refused | None = None


def read_answer(answer: object, share: EvaluationPlan) -> Played | Refusal | CodeRefusal:
    """`Garbage` for anything but exactly the episodes that were asked for, or a refusal."""
    if not isinstance(answer, str):
        raise Garbage(f"{type(answer).__name__} instead of text")
    if len(answer) > LARGEST_ANSWER:
        raise Garbage(f"{len(answer)} characters, more than {LARGEST_ANSWER}")
    try:
        read = _Answer.model_validate_json(answer)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise Garbage(f"{where}: {first['msg']}" if where else first["msg"]) from error
    if read.refused is not None:
        return Refusal(**read.refused.model_dump())
    worker = Worker(read.host, read.node)
    code = None
    if read.other_code is not None:
        fields = read.other_code
        code = OtherCode(tuple(fields.versions), fields.package, fields.modules)
        if not read.episodes:
            return CodeRefusal(worker, code)
    if tuple(row.seed for row in read.episodes) != share.seeds:
        raise Garbage(f"{len(read.episodes)} episodes that are not the {len(share.seeds)} that were asked for")
    return Played(tuple(EpisodeResult(**row.model_dump()) for row in read.episodes), read.seconds, worker, code)
