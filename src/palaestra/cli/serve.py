"""`palaestra serve`."""

from __future__ import annotations

import logging
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.cli.command import Command
from palaestra.cli.output import note, print_json
from palaestra.cli.parser import natural
from palaestra.core.errors import escape_controls
from palaestra.runs.logs import log_level
from palaestra.runs.store import runs_root
from palaestra.web.server import DEFAULT_PORT, ServeSettings, run_server

if TYPE_CHECKING:
    from argparse import Namespace

    from palaestra.cli.parser import Parser
    from palaestra.web.server import ServerInfo


def add_arguments(parser: Parser) -> None:
    parser.add_flag(
        "--port", type=natural, default=DEFAULT_PORT, metavar="N", help=f"default: {DEFAULT_PORT}; 0: any free port"
    )
    parser.add_flag(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on; default: this machine only"
    )
    parser.add_flag("--open", action="store_true", help="open the page in a browser, signed in")
    parser.add_flag("--tls-cert", type=Path, metavar="FILE", help="certificate (PEM), with --tls-key")
    parser.add_flag("--tls-key", type=Path, metavar="FILE", help="private key (PEM)")
    parser.add_flag(
        "--allow-remote",
        action="store_true",
        help="accept other machines without TLS; others on the network can read the traffic",
    )
    parser.add_flag(
        "--name",
        action="append",
        default=[],
        metavar="NAME[:PORT]",
        help="another host name of the daemon; repeatable",
    )
    parser.add_flag("--json", action="store_true", help="print the line as a JSON object")


def run(arguments: Namespace) -> int:
    settings = ServeSettings(
        host=arguments.host,
        port=arguments.port,
        certificate=arguments.tls_cert,
        key=arguments.tls_key,
        allow_remote=arguments.allow_remote,
        names=tuple(arguments.name),
    )
    settings.check()
    _log_to_stderr()
    if settings.is_remote:
        note(_warning(settings))

    def announce(ready: ServerInfo) -> None:
        if arguments.json:
            print_json({"url": ready.url, "link": ready.link, "runs": ready.root})
        else:
            print(f"Serving {ready.root} at {ready.url} — sign in (once): {ready.link}")
        sys.stdout.flush()
        if arguments.open:
            webbrowser.open(ready.link)

    run_server(runs_root(), settings, announce)
    return 0


class OneLine(logging.Formatter):
    """One record, one line, whatever a caller put into a name or a path."""

    def format(self, record: logging.LogRecord) -> str:
        return escape_controls(super().format(record))


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in ("palaestra", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
    logging.getLogger("palaestra").setLevel(log_level())
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def _warning(settings: ServeSettings) -> str:
    how = "with TLS" if settings.certificate else "WITHOUT TLS: whoever is on that network can read the token"
    return f"WARNING: other machines can reach this daemon on {settings.host}, {how}. Its token runs code as you."


COMMAND = Command(
    name="serve",
    summary="run the daemon: queue, API and web page for the runs of this directory",
    examples=("palaestra serve", "palaestra serve --port 0 --json", "palaestra serve --open"),
    add_arguments=add_arguments,
    run=run,
)
