"""A fuzzer for parsers: good examples, damaged in drawn ways; every input is read, or refused by an error of ours.

Anything else that a parser does, to raise another error, to run or to start something, is a finding.
"""

from __future__ import annotations

import contextlib
import random
import struct
import sys
import time
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import PalaestraError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

LONGEST_INPUT = 4096  # bytes; sizes and depths beyond are the business of the hostile corpora
KEPT_CRASHES = 5
# Doing any of these while reading means that an input was more than data.
FORBIDDEN = frozenset(
    {
        *("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "subprocess.Popen"),
        *("os.remove", "os.rename", "shutil.rmtree"),
        *("pickle.find_class", "ctypes.dlopen", "socket.connect", "socket.bind", "webbrowser.open"),
    }
)
NUMBERS = (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1", b"0", b"0.0", b"2147483648", b"9" * 26, b"9" * 400)
MARKS = (b"{}", b"[]", b'""', b'"', b"{", b"}", b"[", b"]", b",", b":", b"=", b".", b"..", b"../", b"\\", b"\n", b" ")
YAMLS = (
    b"!!python/object/apply:os.system",
    b"!!binary",
    b"&a",
    b"*a",
    b"<<:",
    b"? ",
    b"# ",
    b"---",
    b"%YAML 1.1",
    b"~",
)
LETTERS = ("\\u0000", "\\ud800", "\x00", "\u202e", "\ufeff", "é", "🧨", "__class__", "null", "true")
BYTES = (b"\xff", b"\xc3\x28", b"\x80\x04\x95", b"\r\n", b"\t", b"[" * 40, b"{" * 40)
WORDS = (*NUMBERS, *MARKS, *YAMLS, *(word.encode() for word in LETTERS), *BYTES)


@dataclass(frozen=True)
class Parser:
    name: str
    read: Callable[[bytes], object]
    examples: tuple[bytes, ...]
    refusals: tuple[type[Exception], ...] = (PalaestraError,)


@dataclass
class Fuzzed:
    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    slowest_seconds: float = 0.0  # CPU time of one input
    crashes: list[str] = field(default_factory=list)  # the first few, with their inputs
    crash_count: int = 0
    forbidden: list[str] = field(default_factory=list)


# Everything that a careless parser, or a library below it, lets through.
OTHER_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    NameError,
    OSError,
    ReferenceError,
    RuntimeError,
    StopIteration,
    struct.error,
    SyntaxError,
    TypeError,
    ValueError,
    zlib.error,
)


class Ear:
    """Hears what the interpreter is about to do. A hook stays for the life of the process, so there is one."""

    def __init__(self) -> None:
        self._heard: list[str] | None = None  # a list while somebody listens
        self._is_hooked = False

    @contextlib.contextmanager
    def listening(self, heard: list[str]) -> Iterator[None]:
        if not self._is_hooked:
            sys.addaudithook(self._hear)
            self._is_hooked = True
        self._heard = heard
        try:
            yield
        finally:
            self._heard = None

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._heard is not None and event in FORBIDDEN:
            self._heard.append(f"{event}{arguments!r}"[:200])


EAR = Ear()


def fuzz(parser: Parser, count: int, seed: int) -> Fuzzed:
    """Feed `count` drawn inputs; the same seed draws the same ones."""
    found, rng = Fuzzed(), random.Random(f"{parser.name} {seed}")  # noqa: S311  to be drawn again
    for example in parser.examples:  # what is loaded or compiled once, is so before anybody listens
        parser.read(example)
    with EAR.listening(found.forbidden):
        for data in drawn_inputs(parser.examples, rng, count):
            _feed(parser, data, found)
    return found


def _feed(parser: Parser, data: bytes, found: Fuzzed) -> None:
    found.inputs += 1
    began = time.process_time()
    try:
        parser.read(data)
        found.accepted += 1
    except parser.refusals:
        found.refused += 1
    except OTHER_ERRORS as error:
        found.crash_count += 1
        if len(found.crashes) < KEPT_CRASHES:
            found.crashes.append(f"{type(error).__name__}: {error} from {data[:200]!r}")
    found.slowest_seconds = max(found.slowest_seconds, time.process_time() - began)


def drawn_inputs(examples: Sequence[bytes], rng: random.Random, count: int) -> Iterator[bytes]:
    for _ in range(count):
        data = bytearray(rng.choice(examples))
        for _ in range(rng.choice((1, 1, 1, 2, 2, 4, 8))):
            rng.choice(DAMAGES)(data, rng, examples)
        yield bytes(data[:LONGEST_INPUT])


def _flip(data: bytearray, rng: random.Random, _examples: Sequence[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _cut(data: bytearray, rng: random.Random, _examples: Sequence[bytes]) -> None:
    begin, end = _span(data, rng)
    del data[begin:end]


def _end(data: bytearray, rng: random.Random, _examples: Sequence[bytes]) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _repeat(data: bytearray, rng: random.Random, _examples: Sequence[bytes]) -> None:
    begin, end = _span(data, rng)
    data[end:end] = data[begin:end] * rng.choice((1, 2, 10))


def _insert(data: bytearray, rng: random.Random, _examples: Sequence[bytes]) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.choice(WORDS)


def _replace(data: bytearray, rng: random.Random, _examples: Sequence[bytes]) -> None:
    """A number or word between two marks gives way to another: the likeliest to be read as data all the same."""
    marks = [at for at, byte in enumerate(data) if byte in b' ,:=[]{}"\n']
    if len(marks) < 2:
        _insert(data, rng, _examples)
        return
    first = rng.randrange(len(marks) - 1)
    data[marks[first] + 1 : marks[first + 1]] = rng.choice(WORDS)


def _splice(data: bytearray, rng: random.Random, examples: Sequence[bytes]) -> None:
    other = rng.choice(examples)
    at = rng.randrange(len(data) + 1)
    data[at:] = other[rng.randrange(len(other) + 1) :]


def _noise(data: bytearray, rng: random.Random, _examples: Sequence[bytes]) -> None:
    begin, end = _span(data, rng)
    data[begin:end] = rng.randbytes(rng.randrange(1, 16))


def _span(data: bytearray, rng: random.Random) -> tuple[int, int]:
    begin = rng.randrange(len(data) + 1)
    return begin, min(len(data), begin + rng.randrange(1, 32))


DAMAGES = (_flip, _cut, _end, _repeat, _insert, _replace, _replace, _splice, _noise)
