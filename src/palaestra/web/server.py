"""Runs the daemon and its HTTP server in one process."""

from __future__ import annotations

import contextlib
import errno
import logging
import signal
import socket
import ssl
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn

from palaestra.client.daemon_address import find_daemon, remove_daemon_address, token_file, write_daemon_address
from palaestra.core.errors import NotFound, UsageError
from palaestra.daemon.service import Daemon
from palaestra.web.app import build_app
from palaestra.web.context import AppContext
from palaestra.web.security.limits import HEADER_BYTES, LimitedWebSocket, TimeoutHttpProtocol
from palaestra.web.security.login import LoginCodes, login_link
from palaestra.web.security.origin import HOST_PATTERN, ServerAddress, is_loopback
from palaestra.web.security.tokens import TokenFile

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from starlette.types import ASGIApp

    from palaestra.daemon.settings import DaemonSettings

logger = logging.getLogger(__name__)

DEFAULT_PORT = 7878
LAST_PORT = 65535
MESSAGE_BYTES = 64 * 1024  # of one WebSocket message from a client
PING_SECONDS = 20.0
KEEP_ALIVE_SECONDS = 30
GRACE_SECONDS = 1  # for pending responses when the daemon ends


@dataclass(frozen=True)
class ServeSettings:
    """Options of `palaestra serve`."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT  # 0: any that is free
    certificate: Path | None = None
    key: Path | None = None
    allow_remote: bool = False
    names: tuple[str, ...] = ()  # additional names by which browsers reach it

    @property
    def is_remote(self) -> bool:
        return not is_loopback(self.host)

    def check(self) -> None:
        """Validates the settings; remote access without TLS must be allowed explicitly."""
        if not 0 <= self.port <= LAST_PORT:
            raise UsageError(f"Invalid port: {self.port} (must be from 0 to {LAST_PORT}; 0 chooses a free one).")
        if (self.certificate is None) != (self.key is None):
            raise UsageError("TLS needs both a certificate and a key.", "Give --tls-cert FILE and --tls-key FILE.")
        if self.is_remote and self.certificate is None and not self.allow_remote:
            raise UsageError(
                f"{self.host!r} is reachable from other machines, and without TLS the traffic is readable.",
                "Give --tls-cert and --tls-key, or --allow-remote if you trust the network.",
            )
        for name in self.names:
            if HOST_PATTERN.fullmatch(name) is None:
                raise UsageError(f"Invalid host name: {name!r}.", "Write NAME or NAME:PORT.")
        self.tls()

    def tls(self) -> ssl.SSLContext | None:
        if self.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"Invalid TLS certificate {self.certificate} or key {self.key}: {error}.") from error
        return context


@dataclass(frozen=True)
class ServerInfo:
    """What `palaestra serve` prints when the server is ready."""

    url: str
    link: str  # one-time login
    root: Path


def run_server(
    root: Path,
    settings: ServeSettings,
    on_ready: Callable[[ServerInfo], None],
    daemon_settings: DaemonSettings | None = None,
) -> None:
    """Runs until SIGTERM or SIGINT; calls `on_ready` when the server listens. Workers continue afterwards."""
    settings.check()
    with contextlib.suppress(OSError):  # the daemon reports write errors
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    listener = open_listener(settings, root)
    with contextlib.closing(listener), Daemon(root, daemon_settings) as daemon:
        address = ServerAddress(
            settings.host, listener.getsockname()[1], "https" if settings.certificate else "http", settings.names
        )
        token = TokenFile(token_file(daemon.root))
        token.ensure()
        context = AppContext(daemon, token, LoginCodes(), address)

        def announce() -> None:
            on_ready(ServerInfo(address.url, login_link(address.url, context.codes), daemon.root))

        daemon_address = write_daemon_address(
            daemon.root, address.url, str(settings.certificate.absolute()) if settings.certificate else ""
        )
        try:
            Server(build_app(context), settings.tls(), announce).run(sockets=[listener])
        finally:
            remove_daemon_address(daemon.root, daemon_address)


def open_listener(settings: ServeSettings, root: Path) -> socket.socket:
    """Binds the port before anything is started."""
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{settings.host!r} is not an address of this machine: {error}.") from error
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise _cannot_bind(error, settings, root) from error
    return listener


def _cannot_bind(error: OSError, settings: ServeSettings, root: Path) -> UsageError:
    where = f"{settings.host}:{settings.port}"
    if error.errno == errno.EADDRINUSE:
        with contextlib.suppress(NotFound):
            daemon_address = find_daemon(root)
            return UsageError(
                f"A daemon already serves these runs at {daemon_address.url} (process {daemon_address.pid}).",
                "To sign in: palaestra token --link",
            )
        return UsageError(
            f"Port {settings.port} on {settings.host} is in use by another program.",
            "Choose another port, or a free one: palaestra serve --port 0",
        )
    if error.errno == errno.EACCES:
        return UsageError(f"Permission denied for {where}.", "Choose a port from 1024 on.")
    return UsageError(f"Cannot bind {where}: {error.strerror}.", "Try --host 127.0.0.1.")


class Server(uvicorn.Server):
    """uvicorn with our limits, without its log output, and with exit code 0 after SIGTERM and SIGINT."""

    def __init__(self, app: ASGIApp, tls: ssl.SSLContext | None, announce: Callable[[], None]) -> None:
        config = uvicorn.Config(
            app,
            http=TimeoutHttpProtocol,
            ws=LimitedWebSocket,
            loop="asyncio",
            interface="asgi3",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
            h11_max_incomplete_event_size=HEADER_BYTES,
            ws_max_size=MESSAGE_BYTES,
            ws_per_message_deflate=False,
            ws_ping_interval=PING_SECONDS,
            ws_ping_timeout=PING_SECONDS,
            ssl_context_factory=None if tls is None else lambda _config, _make: tls,
        )
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """uvicorn's own method raises the signal again at the end; here it is a regular end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
