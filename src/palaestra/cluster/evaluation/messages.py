"""Messages between the driver and Ray's workers: shares of a plan, and responses, which are validated."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from palaestra.core.episodes import EpisodeResult
from palaestra.evaluation.plans import request_from_json, request_to_json
from palaestra.runs.environment import CodeDifferences, CodeIdentity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from palaestra.core.evaluation import EvaluationPlan, EvaluationRequest

LARGEST_RESPONSE = 64 << 20  # characters
MOST_FILES = 100_000  # of a package


class InvalidResponse(Exception):
    """The response does not match its share."""


@dataclass(frozen=True)
class Refusal:
    """The worker refused the share; sending it again would not help."""

    message: str
    hint: str
    exit_code: int


@dataclass(frozen=True)
class Worker:
    host: str
    node: str  # Ray's id of the node; empty outside of Ray


@dataclass(frozen=True)
class CodeRefusal:
    """The worker has different code, and that was not accepted."""

    worker: Worker
    code: CodeDifferences


@dataclass(frozen=True)
class Progress:
    """A worker has the share and has ended this many of its episodes."""

    worker: Worker
    pid: int
    finished: int


@dataclass(frozen=True)
class PlayedShare:
    episodes: tuple[EpisodeResult, ...]  # in the order of the share's seeds
    seconds: float
    worker: Worker = Worker("", "")
    code: CodeDifferences | None = None  # that played them, where it differs and was accepted


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


class _CodeDifferences(_Strict):
    versions: list[str] = Field(max_length=64)
    package: dict[str, str] | None = Field(max_length=MOST_FILES)
    modules: dict[str, dict[str, str]] = Field(max_length=64)


class _Response(_Strict):
    host: str
    pid: int
    node: str = ""
    code_differences: _CodeDifferences | None = None
    finished: int | None = Field(default=None, ge=0)  # episodes, of a share that is being played
    episodes: list[_Row] = Field(default_factory=list)
    seconds: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    refused: _Refused | None = None


def progress_to_json(node: str, finished: int) -> str:
    return json.dumps({"host": platform.node(), "pid": os.getpid(), "node": node, "finished": finished})


def read_response(response: object, share: EvaluationPlan) -> PlayedShare | Progress | Refusal | CodeRefusal:
    """Raises `InvalidResponse` for anything but progress, the episodes of the share, or a refusal."""
    if not isinstance(response, str):
        raise InvalidResponse(f"{type(response).__name__} instead of text")
    if len(response) > LARGEST_RESPONSE:
        raise InvalidResponse(f"{len(response)} characters, more than {LARGEST_RESPONSE}")
    try:
        read = _Response.model_validate_json(response)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidResponse(f"{where}: {first['msg']}" if where else first["msg"]) from error
    if read.refused is not None:
        return Refusal(**read.refused.model_dump())
    worker = Worker(read.host, read.node)
    if read.finished is not None:
        return Progress(worker, read.pid, read.finished)
    code = None
    if read.code_differences is not None:
        fields = read.code_differences
        code = CodeDifferences(tuple(fields.versions), fields.package, fields.modules)
        if not read.episodes:
            return CodeRefusal(worker, code)
    if tuple(row.seed for row in read.episodes) != share.seeds:
        count = len(read.episodes)
        raise InvalidResponse(f"{count} episodes of {len(share.seeds)} requested, or episodes of other seeds")
    return PlayedShare(tuple(EpisodeResult(**row.model_dump()) for row in read.episodes), read.seconds, worker, code)


@dataclass(frozen=True)
class Share:
    request: EvaluationRequest  # with the one plan that is to be played
    trust_module: bool  # whether the modules that the checkpoint names may be imported
    code: CodeIdentity  # of the driver
    allow_different_code: bool = False

    @property
    def plan(self) -> EvaluationPlan:
        (plan,) = self.request.plans
        return plan


def share_to_json(
    request: EvaluationRequest,
    plan: EvaluationPlan,
    *,
    trust_module: bool,
    code: CodeIdentity,
    allow_different_code: bool = False,
) -> str:
    """`plan` is one of the request's plans with some of its seeds."""
    fields = {"trust_module": trust_module, "code": asdict(code), "allow_different_code": allow_different_code}
    return json.dumps({"request": request_to_json(replace(request, plans=(plan,))), **fields})


def share_from_json(text: str) -> Share:
    fields = json.loads(text)
    code = CodeIdentity(**fields["code"])
    return Share(**{**fields, "request": request_from_json(fields["request"]), "code": code})


def imported_modules(plans: Iterable[EvaluationPlan], policy: Mapping[str, Any]) -> tuple[str, ...]:
    """The user's modules that playing these plans imports: of environments, and of the policy."""
    named = [plan.env_id for plan in plans if ":" in plan.env_id]
    named += [policy["module"]] if policy.get("module") else []
    return tuple(sorted({name.partition(":")[0] for name in named}))
