"""Evaluations of a run's checkpoints: a summary of each batch, and its episodes."""

from __future__ import annotations

import json
import os
from typing import Any, TypedDict, cast

from palaestra.core.errors import DamagedFile
from palaestra.evaluation.summary import read_batches
from palaestra.runs.files import MAX_JSON_BYTES
from palaestra.web.endpoints import Call, Endpoint
from palaestra.web.files import StoredFile, list_files, open_listed

ENDING = ".json"


class Batch(TypedDict):
    batch: int  # counted from 1
    epoch: int
    episodes: int
    avg: float | None
    min: float | None
    max: float | None
    std: float | None
    seconds: float | None
    suite: str
    complete: bool
    capped: int  # episodes stopped at evaluation.max_steps
    evaluation: str  # id of the evaluation run; empty: evaluated otherwise
    at: float


class EvaluationList(TypedDict):
    batches: list[Batch]
    files: list[StoredFile]


class EvaluatedEpisodes(TypedDict):
    rows: list[dict[str, Any]]  # one for each episode


def list_evaluations(call: Call) -> EvaluationList:
    directory = call.directory()
    return {
        "batches": [describe_batch(batch, number) for number, batch in enumerate(read_batches(directory), 1)],
        "files": [file.to_json() for file in list_files(directory.evaluations, ENDING)],
    }


def describe_batch(batch: dict[str, Any], number: int) -> Batch:
    """Normalizes a stored batch, also of an older version: every field of the page exists and has its type."""
    known: Batch = {
        "batch": int(_number(batch.get("batch")) or number),
        "epoch": int(_number(batch.get("epoch")) or 0),
        "episodes": int(_number(batch.get("episodes")) or 0),
        "avg": _number(batch.get("avg")),
        "min": _number(batch.get("min")),
        "max": _number(batch.get("max")),
        "std": _number(batch.get("std")),
        "seconds": _number(batch.get("seconds")),
        "suite": str(batch.get("suite") or ""),
        "complete": batch.get("complete") is not False,
        "capped": int(_number(batch.get("capped")) or 0),
        "evaluation": str(batch.get("evaluation") or ""),
        "at": _number(batch.get("at")) or 0.0,
    }
    return cast("Batch", {**batch, **known})


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) else None


def show_evaluation(call: Call) -> EvaluatedEpisodes:
    """Returns the episodes of one simulation."""
    file = open_listed(call.directory().evaluations, call.path["name"], ENDING)
    with os.fdopen(file.descriptor, "rb") as stream:
        content = stream.read(MAX_JSON_BYTES + 1)
    if len(content) > MAX_JSON_BYTES:
        raise DamagedFile(f"{file.name} is larger than {MAX_JSON_BYTES} bytes.")
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"{file.name} is not valid JSON: {error}.") from error
    if not isinstance(data, dict) or not isinstance(data.get("rows"), list):
        raise DamagedFile(f"{file.name} contains no episodes.")
    return cast("EvaluatedEpisodes", data)


ROUTES = (
    Endpoint(
        "GET",
        "/api/runs/{id}/evaluations",
        list_evaluations,
        "evaluations of a run, oldest first",
        response=EvaluationList,
        errors=(409,),
    ),
    Endpoint(
        "GET",
        "/api/runs/{id}/evaluations/{name}",
        show_evaluation,
        "the episodes of one evaluation",
        response=EvaluatedEpisodes,
        errors=(409,),
    ),
)
