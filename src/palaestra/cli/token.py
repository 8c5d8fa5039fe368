"""`palaestra token [--renew] [--link]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.cli.command import Command
from palaestra.cli.output import note, print_json
from palaestra.client.calls import connect
from palaestra.client.daemon_address import token_file
from palaestra.core.errors import UsageError
from palaestra.runs.store import runs_root
from palaestra.web.security.tokens import TokenFile

if TYPE_CHECKING:
    from argparse import Namespace

    from palaestra.cli.parser import Parser


def add_arguments(parser: Parser) -> None:
    parser.add_flag("--renew", action="store_true", help="create a new token; the old one and all sessions end at once")
    parser.add_flag(
        "--link", action="store_true", help="print a link that signs in one browser, once, within ten minutes"
    )
    parser.add_flag("--json", action="store_true", help="one JSON object on stdout")


def run(arguments: Namespace) -> int:
    if arguments.renew and arguments.link:
        raise UsageError("--renew and --link exclude each other.", "Renew first, then create a link.")
    if arguments.link:
        with connect() as client:
            link = client.login_link()
        _say({"link": link}, link, as_json=arguments.json)
        return 0
    path = token_file(runs_root().absolute())
    tokens = TokenFile(path)
    try:
        token = tokens.renew() if arguments.renew else tokens.ensure()
    except OSError as error:
        raise UsageError(f"Cannot write {path}: {error.strerror}.", "Set PALAESTRA_RUNS_DIR.") from error
    if arguments.renew:
        note("The token has changed; browsers must sign in again.")
    _say({"token": token, "file": path}, token, as_json=arguments.json)
    return 0


def _say(data: dict[str, object], text: str, *, as_json: bool) -> None:
    if as_json:
        print_json(data)
    else:
        print(text)


COMMAND = Command(
    name="token",
    summary="show or renew the daemon's token, or create a sign-in link for a browser",
    examples=("palaestra token", "palaestra token --renew", "palaestra token --json"),
    add_arguments=add_arguments,
    run=run,
)
