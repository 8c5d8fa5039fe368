"""The daemon's API as Python calls: `palaestra.client.calls.connect().submit("cartpole", total_steps=10_000)`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from palaestra.client.connection import Connection
from palaestra.client.doorplate import find_daemon, token_file
from palaestra.config.overrides import nest
from palaestra.core.errors import NotFound, UsageError
from palaestra.runs.store import runs_root

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

URL_VARIABLE, TOKEN_VARIABLE = "PALAESTRA_DAEMON", "PALAESTRA_DAEMON_TOKEN"
CERTIFICATE_VARIABLE = "PALAESTRA_DAEMON_CERTIFICATE"

Data = dict[str, Any]


def connect(root: Path | None = None) -> Client:
    """The daemon that serves these runs (default: those of this directory), or the one that the environment names."""
    url = os.environ.get(URL_VARIABLE)
    if url and root is None:
        token = os.environ.get(TOKEN_VARIABLE)
        if not token:
            raise UsageError(f"{URL_VARIABLE} is set, but {TOKEN_VARIABLE} is not.", "Ask there: palaestra token")
        return Client(url, token, os.environ.get(CERTIFICATE_VARIABLE, ""))
    root = (root or runs_root()).absolute()
    plate = find_daemon(root)
    try:
        token = token_file(root).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NotFound(f"The daemon's token {token_file(root)} cannot be read.", "Is it another user's?") from error
    return Client(plate.url, token, plate.certificate)


class Client:
    """Not for two threads at once; every call may raise an error of the house."""

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
        """What would become of it: {errors, config, yaml, command}."""
        return self._data("POST", "/api/requests/check", {"recipe": recipe, **request})

    def submit(self, recipe: str = "", config: Mapping[str, Any] | None = None, **request: Any) -> Data:
        """A new run. `config` may be nested or dotted; further words as in the API: kind, name, nproc, priority, …"""
        return self._run("/api/runs", {"recipe": recipe, "config": nest(config or {}), **request})

    def again(self) -> Data:
        return self._run("/api/again", {})

    def runs(self, **wanted: Any) -> list[Data]:
        """Filters as in the API: state, search, tag, kind, sort, order, limit, offset."""
        return list(self.listing(**wanted)["runs"])

    def listing(self, **wanted: Any) -> Data:
        """{runs, total, sequence, boot}: with the last two `follow_events` goes on from here."""
        return self._data("GET", "/api/runs", query=wanted)

    def run(self, run: str) -> Data:
        return self._data("GET", f"/api/runs/{_word(run)}")

    def stop(self, run: str, grace_seconds: float | None = None) -> Data:
        return self._run(f"/api/runs/{_word(run)}/stop", {"grace_seconds": grace_seconds})

    def cancel(self, run: str) -> Data:
        return self._run(f"/api/runs/{_word(run)}/cancel", {})

    def retry(self, run: str) -> Data:
        return self._run(f"/api/runs/{_word(run)}/retry", {})

    def clone(self, run: str, name: str = "", config: Mapping[str, Any] | None = None) -> Data:
        return self._run(f"/api/runs/{_word(run)}/clone", {"name": name, "config": nest(config or {})})

    def evaluate(self, run: str, selector: str = "best", **wanted: Any) -> Data:
        return self._run(f"/api/runs/{_word(run)}/evaluate", {"selector": selector, **wanted})

    def change(self, run: str, **changes: Any) -> Data:
        answer = self._data("PATCH", f"/api/runs/{_word(run)}", changes)
        return dict(answer["run"])

    def remove(self, run: str) -> None:
        self._connection.ask("DELETE", f"/api/runs/{_word(run)}", {})

    def login_link(self) -> str:
        return str(self._data("POST", "/api/login/link", {})["link"])

    def _run(self, path: str, body: Data) -> Data:
        return dict(self._data("POST", path, body)["run"])

    def _data(self, method: str, path: str, body: Data | None = None, query: Data | None = None) -> Data:
        answer = self._connection.ask(method, path, body, query)
        if not isinstance(answer, dict):
            raise NotFound(f"What answers at {self.url} is no daemon of ours.")
        return answer


def _word(run: str) -> str:
    """One part of a path, whatever it contains."""
    return quote(run, safe="")
