"""Recorded episodes as films."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from palaestra.web.file_answer import FileAnswer
from palaestra.web.listing import StoredFile, list_files, open_listed
from palaestra.web.route import Call, Endpoint

if TYPE_CHECKING:
    from starlette.responses import Response

ENDING = ".mp4"
MEDIA = "video/mp4"


class VideoList(TypedDict):
    videos: list[StoredFile]


def list_videos(call: Call) -> VideoList:
    return {"videos": [file.plain() for file in list_files(call.directory().videos, ENDING)]}


def send_video(call: Call) -> Response:
    """In ranges, so that a browser can jump to any second of it."""
    return FileAnswer(open_listed(call.directory().videos, call.path["name"], ENDING), call.request, MEDIA)


ROUTES = (
    Endpoint("GET", "/api/runs/{id}/videos", list_videos, "films of a run", response=VideoList),
    Endpoint(
        "GET", "/api/runs/{id}/videos/{name}", send_video, "one film; Range is honoured", media=MEDIA, errors=(416,)
    ),
)
