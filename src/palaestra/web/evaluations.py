"""Judgements of a run's checkpoints: a line for each batch, and the episodes behind it."""

from __future__ import annotations

import json
import os
from typing import Any

from palaestra.contracts.errors import DamagedFile
from palaestra.evaluation.summary import read_batches
from palaestra.runs.files import MAX_JSON_BYTES
from palaestra.web.listing import list_files, open_listed
from palaestra.web.route import Call, Endpoint
from palaestra.web.schemas import MAPPING, TEXT, WHOLE, fields, rows

ENDING = ".json"


def list_evaluations(call: Call) -> dict[str, Any]:
    directory = call.directory()
    batches = read_batches(directory)
    numbered = [{**batch, "batch": batch.get("batch", number)} for number, batch in enumerate(batches, 1)]
    return {
        "batches": numbered,
        "files": [file.plain() for file in list_files(directory.evaluations, ENDING)],
    }


def show_evaluation(call: Call) -> dict[str, Any]:
    """The rows of one simulation, an episode each."""
    file = open_listed(call.directory().evaluations, call.path["name"], ENDING)
    with os.fdopen(file.descriptor, "rb") as stream:
        content = stream.read(MAX_JSON_BYTES + 1)
    if len(content) > MAX_JSON_BYTES:
        raise DamagedFile(f"{file.name} is longer than {MAX_JSON_BYTES} bytes; it is not one of ours.")
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"{file.name} is not valid JSON: {error}.") from error
    if not isinstance(data, dict) or not isinstance(data.get("rows"), list):
        raise DamagedFile(f"{file.name} holds no episodes.")
    return data


_BATCH = {"type": "object", "properties": {"batch": WHOLE, "epoch": WHOLE, "episodes": WHOLE, "suite": TEXT}}
ROUTES = (
    Endpoint(
        "GET",
        "/api/runs/{id}/evaluations",
        list_evaluations,
        "judgements of a run, oldest first",
        answer=fields(batches=rows(_BATCH), files=rows(MAPPING)),
        errors=(409,),
    ),
    Endpoint(
        "GET",
        "/api/runs/{id}/evaluations/{name}",
        show_evaluation,
        "the episodes of one judgement",
        answer=fields(rows=rows(MAPPING)),
        errors=(409,),
    ),
)
