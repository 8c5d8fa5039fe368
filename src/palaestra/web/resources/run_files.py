"""Files of a run: artifacts, videos and replays. Artifacts are untrusted and are only sent as attachments."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from palaestra.runs.replays import SUFFIX
from palaestra.web.endpoints import Call, Endpoint
from palaestra.web.files import StoredFile, StoredFileResponse, attachment, list_files, open_listed

if TYPE_CHECKING:
    from starlette.responses import Response

ARTIFACT_MEDIA = "application/octet-stream"
VIDEO_ENDING = ".mp4"
VIDEO_MEDIA = "video/mp4"
REPLAY_MEDIA = "application/gzip"


class ArtifactList(TypedDict):
    artifacts: list[StoredFile]


def list_artifacts(call: Call) -> ArtifactList:
    return {"artifacts": [file.to_json() for file in list_files(call.directory().artifacts)]}


def send_artifact(call: Call) -> Response:
    file = open_listed(call.directory().artifacts, call.path["name"])
    return StoredFileResponse(file, call.request, ARTIFACT_MEDIA, attachment(file.name))


class VideoList(TypedDict):
    videos: list[StoredFile]


def list_videos(call: Call) -> VideoList:
    return {"videos": [file.to_json() for file in list_files(call.directory().videos, VIDEO_ENDING)]}


def send_video(call: Call) -> Response:
    """Sends a video with range requests, so that a browser can seek."""
    return StoredFileResponse(
        open_listed(call.directory().videos, call.path["name"], VIDEO_ENDING), call.request, VIDEO_MEDIA
    )


class ReplayList(TypedDict):
    replays: list[StoredFile]


def list_replays(call: Call) -> ReplayList:
    return {"replays": [file.to_json() for file in list_files(call.directory().replays, SUFFIX)]}


def send_replay(call: Call) -> Response:
    """Sends a replay as stored: JSON in gzip, which the page unpacks with its own limits."""
    file = open_listed(call.directory().replays, call.path["name"], SUFFIX)
    return StoredFileResponse(file, call.request, REPLAY_MEDIA, attachment(file.name))


ROUTES = (
    Endpoint("GET", "/api/runs/{id}/artifacts", list_artifacts, "artifacts of a run", response=ArtifactList),
    Endpoint(
        "GET",
        "/api/runs/{id}/artifacts/{name}",
        send_artifact,
        "one artifact, as an attachment",
        media=ARTIFACT_MEDIA,
        errors=(416,),
    ),
    Endpoint("GET", "/api/runs/{id}/videos", list_videos, "videos of a run", response=VideoList),
    Endpoint(
        "GET",
        "/api/runs/{id}/videos/{name}",
        send_video,
        "one video; supports Range",
        media=VIDEO_MEDIA,
        errors=(416,),
    ),
    Endpoint("GET", "/api/runs/{id}/replays", list_replays, "replays of a run", response=ReplayList),
    Endpoint(
        "GET", "/api/runs/{id}/replays/{name}", send_replay, "one replay, gzip", media=REPLAY_MEDIA, errors=(416,)
    ),
)
