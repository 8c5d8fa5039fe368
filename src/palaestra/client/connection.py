"""One kept connection to a daemon: JSON out, JSON in, refusals as errors of the house."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from palaestra.core.errors import NotFound, PalaestraError, RunFailed, UsageError
from palaestra.core.worker_kind import FieldError, RequestRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

SECONDS = 60.0
MOST_BYTES = 256 << 20  # of one answer
SCHEMES = {"http": 80, "https": 443}


class Connection:
    """Not for two threads at once."""

    def __init__(self, url: str, token: str, certificate: str = "", seconds: float = SECONDS) -> None:
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES or not parts.hostname or parts.path not in {"", "/"}:
            raise UsageError(f"'{url}' is no address of a daemon.", "For example: http://127.0.0.1:7878")
        self.url = f"{parts.scheme}://{parts.netloc}"
        self.token = token
        self.tls = ssl.create_default_context(cafile=certificate or None) if parts.scheme == "https" else None
        port = parts.port or SCHEMES[parts.scheme]
        self._open: http.client.HTTPConnection
        if self.tls is not None:
            self._open = http.client.HTTPSConnection(parts.hostname, port, timeout=seconds, context=self.tls)
        else:
            self._open = http.client.HTTPConnection(parts.hostname, port, timeout=seconds)

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        return self.ask("GET", path, query=query)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return self.ask("POST", path, body or {})

    def ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, query: Mapping[str, Any] | None = None
    ) -> Any:
        """The answer's JSON; None when it has none."""
        target = path + (f"?{urlencode(_given(query), doseq=True)}" if query and _given(query) else "")
        content = None if body is None else json.dumps(body, allow_nan=False).encode()
        status, answer = self._exchange(method, target, content)
        data = _decode(answer)
        if status >= 400:
            raise refusal_of(status, data)
        return data

    def close(self) -> None:
        self._open.close()

    def _exchange(self, method: str, target: str, content: bytes | None) -> tuple[int, bytes]:
        """A kept connection may have been closed meanwhile: then once more, unless the daemon may have acted on it."""
        is_fresh = self._open.sock is None
        try:
            return self._send(method, target, content)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError) as error:
            self._open.close()
            if is_fresh or method != "GET":
                raise self._silent(error) from error
        except (OSError, http.client.HTTPException) as error:
            self._open.close()
            raise self._silent(error) from error
        try:
            return self._send(method, target, content)
        except (OSError, http.client.HTTPException) as error:
            self._open.close()
            raise self._silent(error) from error

    def _send(self, method: str, target: str, content: bytes | None) -> tuple[int, bytes]:
        headers = {"authorization": f"Bearer {self.token}", "accept": "application/json"}
        headers |= {"content-type": "application/json"} if content is not None else {}
        self._open.request(method, target, content, headers)
        with self._open.getresponse() as response:
            answer = response.read(MOST_BYTES + 1)
        if len(answer) > MOST_BYTES:
            self._open.close()
            raise RunFailed(f"The daemon's answer to {method} {target} has more than {MOST_BYTES} bytes.")
        return response.status, answer

    def _silent(self, error: Exception) -> NotFound:
        said = str(error) or type(error).__name__
        return NotFound(f"No daemon answers at {self.url} ({said}).", "Is it running? palaestra serve")


def refusal_of(status: int, data: Any) -> PalaestraError:
    """The error that the same call would have raised without a daemon between."""
    told = data.get("error") if isinstance(data, dict) else None
    told = told if isinstance(told, dict) else {}
    message, hint = (
        str(told.get("message") or f"The daemon answered with status {status}."),
        str(told.get("hint") or ""),
    )
    if status == 422 and told.get("fields"):
        return RequestRefused([_complaint(field) for field in told["fields"]])
    if status == 401:
        return UsageError(f"The daemon does not know this token. {message}", hint)
    if status == 404:
        return NotFound(message, hint)
    return RunFailed(message, hint) if status >= 500 else UsageError(message, hint)


def _complaint(field: Any) -> FieldError:
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
        raise RunFailed("What answers there is no daemon of ours: its answer is not JSON.") from error


def _given(query: Mapping[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (query or {}).items() if value not in (None, "", [], ())}
