"""Whatever else a run left behind. Anybody may have written it, so it is only ever saved, never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from palaestra.web.file_answer import FileAnswer, attachment
from palaestra.web.listing import StoredFile, list_files, open_listed
from palaestra.web.route import Call, Endpoint

if TYPE_CHECKING:
    from starlette.responses import Response

MEDIA = "application/octet-stream"


class ArtifactList(TypedDict):
    artifacts: list[StoredFile]


def list_artifacts(call: Call) -> ArtifactList:
    return {"artifacts": [file.plain() for file in list_files(call.directory().artifacts)]}


def send_artifact(call: Call) -> Response:
    file = open_listed(call.directory().artifacts, call.path["name"])
    return FileAnswer(file, call.request, MEDIA, attachment(file.name))


ROUTES = (
    Endpoint("GET", "/api/runs/{id}/artifacts", list_artifacts, "artefacts of a run", response=ArtifactList),
    Endpoint(
        "GET", "/api/runs/{id}/artifacts/{name}", send_artifact, "one artefact, to save", media=MEDIA, errors=(416,)
    ),
)
