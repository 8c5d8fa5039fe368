"""TensorBoard in its own process, reachable through a socket file that only this user can open.

`python -m palaestra.web.tensorboard.child` reads one line of JSON (`socket`, `logs`, `prefix`) and then its end: when
whoever started it is gone, however it went, its standard input ends, and so does this process. No port is opened,
and nothing secret stands in the list of processes.
"""

from __future__ import annotations

import json
import os
import socketserver
import sys
import threading
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from tensorboard import program

if TYPE_CHECKING:
    from argparse import Namespace
    from socket import socket

RELOAD_SECONDS = 5


class QuietHandler(WSGIRequestHandler):
    def log_message(self, *_arguments: Any) -> None:
        """Does nothing; the daemon logs requests."""


class SocketServer(socketserver.ThreadingMixIn, WSGIServer):
    """WSGI over a socket file."""

    address_family = socketserver.UnixStreamServer.address_family
    daemon_threads = True

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "localhost", 0
        self.setup_environ()

    def get_request(self) -> tuple[socket, tuple[str, int]]:
        connection, _ = self.socket.accept()
        return connection, ("local", 0)


def serve(address: str, logs: str, prefix: str) -> None:
    def make_server(application: Any, _flags: Namespace) -> SocketServer:
        server = SocketServer(address, QuietHandler)  # type: ignore[arg-type]
        server.set_app(application)
        return server

    board = program.TensorBoard(server_class=make_server)
    arguments = ["--logdir", logs, "--path_prefix", prefix, "--reload_interval", str(RELOAD_SECONDS)]
    board.configure(argv=["tensorboard", *arguments, "--load_fast", "false", "--window_title", "Palaestra"])
    board._make_server().serve_forever()


def exit_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    os.umask(0o077)
    settings = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=exit_with_parent, daemon=True).start()
    serve(settings["socket"], settings["logs"], settings["prefix"])


if __name__ == "__main__":
    main()
