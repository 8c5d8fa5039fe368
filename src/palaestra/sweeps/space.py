"""The values of a parameter: a list or a range. The grammar of `ppo.learning_rate=1e-4..1e-2:log`.

a,b,c            one of these values
lo..hi           a number between the two, ends included
lo..hi:log       evenly over orders of magnitude
lo..hi:int       whole numbers only (the default for integer keys)
lo..hi:5         five points, evenly spaced, for a grid; also lo..hi:log:5
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from palaestra.config.yaml import parse_yaml
from palaestra.core.errors import DamagedFile, UsageError, did_you_mean

NUMBER = r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?"
RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})((?::[^:]*)*)")
OPENING, CLOSING, QUOTES = "[{(", "]})", "\"'"
MAX_POINTS = 1_000
DIGITS = 4  # that a drawn number keeps, so that it can be read and typed


@dataclass(frozen=True)
class Choices:
    key: str
    values: tuple[Any, ...]

    @property
    def ends(self) -> tuple[Any, ...]:
        """The values to validate."""
        return self.values

    def points(self) -> tuple[Any, ...]:
        return self.values

    def at(self, share: float) -> Any:
        """The value for a number in [0, 1)."""
        return self.values[min(int(share * len(self.values)), len(self.values) - 1)]


@dataclass(frozen=True)
class Range:
    key: str
    low: float
    high: float
    is_log: bool = False
    is_whole: bool = False
    count: int | None = None  # points, for a grid

    @property
    def ends(self) -> tuple[float, float]:
        return self._number(self.low), self._number(self.high)

    def points(self) -> tuple[float, ...]:
        """The points of a grid; integers need no count."""
        if self.count is None and not self.is_whole:
            text = f"{self.key}={self}"
            raise UsageError(f"A grid needs a number of points for '{text}'.", f"Write {text}:5, or try method=random.")
        if self.count is None:
            return tuple(range(int(self.low), int(self.high) + 1))
        found = [self.at(index / (self.count - 1)) for index in range(self.count)]
        return tuple(dict.fromkeys(found))

    def at(self, share: float) -> float:
        """The number for a position in [0, 1]."""
        if self.is_log:
            number = math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
        else:
            number = self.low + share * (self.high - self.low)
        return self.rounded(number)

    def rounded(self, number: float) -> float:
        """Rounded to an integer or to few digits, within the range."""
        near = round(number) if self.is_whole else float(f"{number:.{DIGITS}g}")
        return self._number(min(max(near, self.low), self.high))

    def _number(self, number: float) -> float:
        return int(number) if self.is_whole else number

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}" + ":log" * self.is_log


Parameter = Choices | Range


def parse_parameter(key: str, requested: Any) -> Parameter | None:
    """The parameter of a `key=…` argument; None for a single value, which is the same in all trials."""
    if isinstance(requested, list | tuple):
        return _choices(key, tuple(requested))
    if not isinstance(requested, str):
        return None
    found = RANGE.fullmatch(requested.strip())
    if found:
        return _range(key, requested.strip(), found)
    pieces = split_commas(requested)
    return None if len(pieces) == 1 else _choices(key, tuple(_value(key, piece) for piece in pieces))


def split_commas(text: str) -> list[str]:
    """Splits at commas outside of brackets and quotes."""
    pieces, start, depth, quote = [], 0, 0, ""
    for index, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in QUOTES:
            quote = letter
        elif letter in OPENING:
            depth += 1
        elif letter in CLOSING:
            depth -= 1
        elif letter == "," and depth == 0:
            pieces.append(text[start:index])
            start = index + 1
    return [*pieces, text[start:]]


def _range(key: str, text: str, found: re.Match[str]) -> Range:
    low, high = float(found[1]), float(found[2])
    options = found[3].split(":")[1:]
    counts = [option for option in options if option.isascii() and option.isdigit()]
    unknown = next((option for option in options if option not in {"log", "int", *counts}), None)
    if unknown is not None or len(set(options)) < len(options) or len(counts) > 1:
        hint = did_you_mean(unknown or "", ("log", "int")) or "After the range: log, int, or a number of points."
        raise UsageError(f"'{key}={text}' is no range: '{unknown or found[3]}' says nothing.", hint)
    count = int(counts[0][:9]) if counts else None
    _refuse_empty(key, text, low, high, count)
    if "log" in options and low <= 0:
        raise UsageError(f"'{key}={text}': a logarithm needs a range above 0, not from {low:g}.", "Leave out ':log'.")
    is_whole = "int" in options
    if is_whole and not (low.is_integer() and high.is_integer()):
        raise UsageError(f"'{key}={text}': with ':int' both ends must be whole numbers.")
    return Range(key, low, high, "log" in options, is_whole, count)


def _refuse_empty(key: str, text: str, low: float, high: float, count: int | None) -> None:
    if low > high:
        raise UsageError(f"'{key}={text}' is empty: {low:g} is above {high:g}.", f"Write {key}={high:g}..{low:g}.")
    if low == high:
        raise UsageError(f"'{key}={text}' is one value, not a range.", f"Write {key}={low:g}.")
    if not math.isfinite(high - low):
        raise UsageError(f"'{key}={text}' is too wide a range.")
    if count is not None and not 2 <= count <= MAX_POINTS:
        raise UsageError(f"'{key}={text}': {count} points cannot be.", f"From 2 to {MAX_POINTS}.")


def _choices(key: str, values: tuple[Any, ...]) -> Choices:
    if not values:
        raise UsageError(f"'{key}=[]' lists no values to try.", f"Write {key}=a,b,c.")
    for index, value in enumerate(values):
        if any(_same(value, other) for other in values[:index]):
            raise UsageError(f"'{key}' lists {value!r} twice.", "Remove one of them.")
    return Choices(key, values)


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _value(key: str, piece: str) -> Any:
    if not piece.strip():
        raise UsageError(f"'{key}' lists an empty value.", "Is there a comma too many?")
    try:
        return parse_yaml(piece, f"a value of '{key}'")
    except DamagedFile as error:
        raise UsageError(f"'{piece}' of '{key}' cannot be read: {error.message}", "Quote it to pass text.") from error
