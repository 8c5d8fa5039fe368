"""argparse, with errors that teach, flags anywhere between the words, and no abbreviations."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from typing import Any, NoReturn

from palaestra.config.library_names import translate_key
from palaestra.core.errors import UsageError, did_you_mean


class Parser(ArgumentParser):
    """Raises UsageError where argparse would print and leave."""

    def __init__(self, name: str, summary: str) -> None:
        super().__init__(
            prog=f"palaestra {name}",
            description=summary[:1].upper() + summary[1:] + ".",
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
            add_help=False,
        )
        self.flags: list[str] = []
        self.add_flag("-h", "--help", action="store_true", help="show this help")

    def add_flag(self, *names: str, **settings: Any) -> None:
        """An option, remembered for completion and did-you-mean."""
        self.flags += names
        self.add_argument(*names, **settings)

    def parse(self, argv: list[str]) -> Namespace:
        arguments, unknown = self.parse_known_intermixed_args(argv)
        if unknown:
            name = unknown[0].partition("=")[0]
            setting = translate_key(name) if name.startswith("--") else ""
            if setting:
                setting += " Settings are written key=value, without dashes."
            hint = setting or did_you_mean(name, self.flags) or f"Try '{self.prog} -h'."
            raise UsageError(f"'{self.prog}' has no argument '{unknown[0]}'.", hint)
        return arguments

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].upper()}{message[1:]}.", f"Try '{self.prog} -h'.")


def positive(text: str) -> int:
    """A whole number from 1 on; `1e3` is one too."""
    return _whole(text, 1)


def natural(text: str) -> int:
    """A whole number from 0 on."""
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not number.is_integer() or number < least:
        raise ArgumentTypeError(f"'{text}' is not a whole number of at least {least}")
    return int(number)
