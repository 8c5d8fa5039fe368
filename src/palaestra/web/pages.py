"""The page and its static files, loaded at startup, so that the text of a client is never joined to a path."""

from __future__ import annotations

import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse, Response

from palaestra.web.endpoints import Call, Endpoint
from palaestra.web.responses import HttpError
from palaestra.web.security.headers import PAGE_POLICY

if TYPE_CHECKING:
    from palaestra.web.endpoints import Declared

STATIC = Path(__file__).parent / "static"
INDEX, ICON = "index.html", "favicon.svg"
ASSETS = "assets"
FOR_EVER = "public, max-age=31536000, immutable"  # asset names contain a hash of their content
TEXT_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".woff2": "font/woff2"}

NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Palaestra</title></head>
<body><h1>Palaestra</h1>
<p>The daemon is running, but the page is not built. Build it with <code>make ui</code> and restart the daemon.</p>
<p>Everything works without it: <code>palaestra top</code>, <code>palaestra submit</code>, and the API
under <code>/api</code>.</p>
</body></html>
"""


@dataclass(frozen=True)
class StaticFile:
    content: bytes
    media_type: str
    etag: str


def load_files(directory: Path = STATIC) -> dict[str, StaticFile]:
    """Returns files by URL path: "/", "/favicon.svg", "/assets/…", without links. Empty if the page is not built."""
    if not (directory / INDEX).is_file():
        return {}
    found = {"/": _load(directory / INDEX)}
    if (directory / ICON).is_file():
        found[f"/{ICON}"] = _load(directory / ICON)
    for path in sorted((directory / ASSETS).rglob("*")):
        if path.is_file() and not path.is_symlink():
            found[f"/{path.relative_to(directory).as_posix()}"] = _load(path)
    return found


def build_pages(files: dict[str, StaticFile]) -> list[Declared]:
    def show(call: Call) -> Response:
        path = call.request.url.path
        if path == "/" and not files:
            return HTMLResponse(NOT_BUILT)
        if path not in files:
            raise HttpError(404, f"Not found: {path}.")
        return _file_response(files[path], path, call.request.headers.get("if-none-match", ""))

    return [
        Endpoint("GET", "/", show, "the page", media="text/html"),
        Endpoint("GET", f"/{ICON}", show, "its icon", media="image/svg+xml"),
        Endpoint("GET", f"/{ASSETS}/{{name:path}}", show, "files of the page", media="*/*"),
    ]


def is_page(path: str) -> bool:
    """Whether a path is that of a static file, which needs no token; the file may not exist."""
    return path in {"/", f"/{ICON}"} or path.startswith(f"/{ASSETS}/")


def _file_response(file: StaticFile, path: str, known: str) -> Response:
    headers = {"etag": file.etag, "cache-control": FOR_EVER if path.startswith(f"/{ASSETS}/") else "no-cache"}
    if path == "/":
        headers["content-security-policy"] = PAGE_POLICY
    if known == file.etag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=file.media_type)


def _load(path: Path) -> StaticFile:
    content = path.read_bytes()
    guessed = TEXT_TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return StaticFile(content, guessed, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
