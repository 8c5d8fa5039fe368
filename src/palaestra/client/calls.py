"""The daemon's API as Python calls: `palaestra.client.calls.connect().submit("cartpole", {"total_steps": 10_000})`."""

from __future__ import annotations

import http.client
import json
import os
import ssl
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlencode, urlsplit

from palaestra.client.daemon_address import find_daemon, token_file
from palaestra.config.overrides import nest
from palaestra.core.errors import NotFound, PalaestraError, RunFailed, UsageError
from palaestra.core.worker_kind import FieldError, RequestRefused
from palaestra.runs.store import runs_root

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

URL_VARIABLE, TOKEN_VARIABLE = "PALAESTRA_DAEMON", "PALAESTRA_DAEMON_TOKEN"
CERTIFICATE_VARIABLE = "PALAESTRA_DAEMON_CERTIFICATE"

Data = dict[str, Any]
SECONDS = 60.0
MAX_RESPONSE_BYTES = 256 << 20
SCHEMES = {"http": 80, "https": 443}


def connect(root: Path | None = None) -> Client:
    """Connects to the daemon of a runs directory, or to the one in PALAESTRA_DAEMON if `root` is None."""
    url = os.environ.get(URL_VARIABLE)
    if url and root is None:
        token = os.environ.get(TOKEN_VARIABLE)
        if not token:
            raise UsageError(
                f"{URL_VARIABLE} is set, but {TOKEN_VARIABLE} is not.", "On the daemon's machine: palaestra token"
            )
        return Client(url, token, os.environ.get(CERTIFICATE_VARIABLE, ""))
    root = (root or runs_root()).absolute()
    daemon_address = find_daemon(root)
    try:
        token = token_file(root).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NotFound(
            f"Cannot read the daemon's token {token_file(root)}.", "Does it belong to another user?"
        ) from error
    return Client(daemon_address.url, token, daemon_address.certificate)


class Client:
    """Client of one daemon. Not thread-safe; every method may raise a `PalaestraError`."""

    def __init__(self, url: str, token: str, certificate: str = "") -> None:
        self._connection = Connection(url, token, certificate)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    @property
    def connection(self) -> Connection:
        """For `palaestra.client.events.follow_events`."""
        return self._connection

    @property
    def url(self) -> str:
        return self._connection.url

    def system(self) -> Data:
        return self._data("GET", "/api/system")

    def recipes(self) -> list[Data]:
        return list(self._data("GET", "/api/recipes")["recipes"])

    def check(self, recipe: str = "", **request: Any) -> Data:
        """Validates a request: {errors, config, yaml, command}."""
        return self._data("POST", "/api/requests/check", {"recipe": recipe, **request})

    def submit(self, recipe: str = "", config: Mapping[str, Any] | None = None, **request: Any) -> Data:
        """Submits a run. `config` may be nested or dotted; other fields as in the API: kind, name, nproc, …"""
        return self._run("/api/runs", {"recipe": recipe, "config": nest(config or {}), **request})

    def rerun_latest(self) -> Data:
        return self._run("/api/rerun", {})

    def runs(self, **filters: Any) -> list[Data]:
        """Lists runs. Filters as in the API: state, search, tag, kind, sort, order, limit, offset."""
        return list(self.listing(**filters)["runs"])

    def listing(self, **filters: Any) -> Data:
        """Returns {runs, total, sequence, boot}; pass the last two to `follow_events`."""
        return self._data("GET", "/api/runs", query=filters)

    def run(self, run: str) -> Data:
        return self._data("GET", f"/api/runs/{_quoted(run)}")

    def stop(self, run: str, grace_seconds: float | None = None) -> Data:
        return self._run(f"/api/runs/{_quoted(run)}/stop", {"grace_seconds": grace_seconds})

    def cancel(self, run: str) -> Data:
        return self._run(f"/api/runs/{_quoted(run)}/cancel", {})

    def retry(self, run: str) -> Data:
        return self._run(f"/api/runs/{_quoted(run)}/retry", {})

    def clone(self, run: str, name: str = "", config: Mapping[str, Any] | None = None) -> Data:
        return self._run(f"/api/runs/{_quoted(run)}/clone", {"name": name, "config": nest(config or {})})

    def evaluate(self, run: str, selector: str = "best", **options: Any) -> Data:
        return self._run(f"/api/runs/{_quoted(run)}/evaluate", {"selector": selector, **options})

    def change(self, run: str, **changes: Any) -> Data:
        response = self._data("PATCH", f"/api/runs/{_quoted(run)}", changes)
        return dict(response["run"])

    def remove(self, run: str) -> None:
        self._connection.request("DELETE", f"/api/runs/{_quoted(run)}", {})

    def login_link(self) -> str:
        return str(self._data("POST", "/api/login/link", {})["link"])

    def _run(self, path: str, body: Data) -> Data:
        return dict(self._data("POST", path, body)["run"])

    def _data(self, method: str, path: str, body: Data | None = None, query: Data | None = None) -> Data:
        response = self._connection.request(method, path, body, query)
        if not isinstance(response, dict):
            raise NotFound(f"The server at {self.url} is not a Palaestra daemon.")
        return response


def _quoted(run: str) -> str:
    """Quotes a run as one segment of a path."""
    return quote(run, safe="")


class Connection:
    """A persistent HTTP connection with JSON requests and responses. Not thread-safe."""

    def __init__(self, url: str, token: str, certificate: str = "", seconds: float = SECONDS) -> None:
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES or not parts.hostname or parts.path not in {"", "/"}:
            raise UsageError(f"Invalid daemon URL: {url!r}.", "For example: http://127.0.0.1:7878")
        self.url = f"{parts.scheme}://{parts.netloc}"
        self.token = token
        self.tls = ssl.create_default_context(cafile=certificate or None) if parts.scheme == "https" else None
        port = parts.port or SCHEMES[parts.scheme]
        self._http: http.client.HTTPConnection
        if self.tls is not None:
            self._http = http.client.HTTPSConnection(parts.hostname, port, timeout=seconds, context=self.tls)
        else:
            self._http = http.client.HTTPConnection(parts.hostname, port, timeout=seconds)

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        return self.request("GET", path, query=query)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return self.request("POST", path, body or {})

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, query: Mapping[str, Any] | None = None
    ) -> Any:
        """Returns the decoded JSON of the response; None if it is empty."""
        target = path + (f"?{urlencode(_without_empty(query), doseq=True)}" if query and _without_empty(query) else "")
        content = None if body is None else json.dumps(body, allow_nan=False).encode()
        status, content = self._exchange(method, target, content)
        data = _decode(content)
        if status >= 400:
            raise error_from_response(status, data)
        return data

    def close(self) -> None:
        self._http.close()

    def _exchange(self, method: str, target: str, content: bytes | None) -> tuple[int, bytes]:
        """Sends a request. Retries a GET if the persistent connection was closed by the daemon."""
        is_fresh = self._http.sock is None
        try:
            return self._send(method, target, content)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError) as error:
            self._http.close()
            if is_fresh or method != "GET":
                raise self._unreachable(error) from error
        except (OSError, http.client.HTTPException) as error:
            self._http.close()
            raise self._unreachable(error) from error
        try:
            return self._send(method, target, content)
        except (OSError, http.client.HTTPException) as error:
            self._http.close()
            raise self._unreachable(error) from error

    def _send(self, method: str, target: str, content: bytes | None) -> tuple[int, bytes]:
        headers = {"authorization": f"Bearer {self.token}", "accept": "application/json"}
        headers |= {"content-type": "application/json"} if content is not None else {}
        self._http.request(method, target, content, headers)
        with self._http.getresponse() as response:
            content = response.read(MAX_RESPONSE_BYTES + 1)
        if len(content) > MAX_RESPONSE_BYTES:
            self._http.close()
            raise RunFailed(f"The response to {method} {target} is larger than {MAX_RESPONSE_BYTES} bytes.")
        return response.status, content

    def _unreachable(self, error: Exception) -> NotFound:
        reason = str(error) or type(error).__name__
        return NotFound(f"No daemon responds at {self.url} ({reason}).", "Is it running? palaestra serve")


def error_from_response(status: int, data: Any) -> PalaestraError:
    """Returns the error that the daemon reported, as the class that a local call raises."""
    details = data.get("error") if isinstance(data, dict) else None
    details = details if isinstance(details, dict) else {}
    message, hint = (
        str(details.get("message") or f"The daemon responded with status {status}."),
        str(details.get("hint") or ""),
    )
    if status == 422 and details.get("fields"):
        return RequestRefused([_field_error(field) for field in details["fields"]])
    if status == 401:
        return UsageError(f"The daemon does not accept this token. {message}", hint)
    if status == 404:
        return NotFound(message, hint)
    return RunFailed(message, hint) if status >= 500 else UsageError(message, hint)


def _field_error(field: Any) -> FieldError:
    data = field if isinstance(field, dict) else {}
    code = data.get("exit_code")
    key, message, hint = (str(data.get(name) or "") for name in ("key", "message", "hint"))
    return FieldError(key, message, hint, code if isinstance(code, int) else UsageError.exit_code)


def _decode(content: bytes) -> Any:
    if not content:
        return None
    try:
        return json.loads(content)
    except ValueError as error:
        raise RunFailed("The server is not a Palaestra daemon: its response is not JSON.") from error


def _without_empty(query: Mapping[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (query or {}).items() if value not in (None, "", [], ())}
