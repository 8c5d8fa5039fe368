"""Recorded episodes that can be looked at step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from palaestra.runs.replay_file import SUFFIX
from palaestra.web.file_answer import FileAnswer, attachment
from palaestra.web.listing import StoredFile, list_files, open_listed
from palaestra.web.route import Call, Endpoint

if TYPE_CHECKING:
    from starlette.responses import Response

MEDIA = "application/gzip"


class ReplayList(TypedDict):
    replays: list[StoredFile]


def list_replays(call: Call) -> ReplayList:
    return {"replays": [file.plain() for file in list_files(call.directory().replays, SUFFIX)]}


def send_replay(call: Call) -> Response:
    """As it lies there: JSON in gzip. A page unpacks it with limits of its own."""
    file = open_listed(call.directory().replays, call.path["name"], SUFFIX)
    return FileAnswer(file, call.request, MEDIA, attachment(file.name))


ROUTES = (
    Endpoint("GET", "/api/runs/{id}/replays", list_replays, "replays of a run", response=ReplayList),
    Endpoint("GET", "/api/runs/{id}/replays/{name}", send_replay, "one replay, gzip", media=MEDIA, errors=(416,)),
)
