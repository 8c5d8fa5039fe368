"""What a cache of curves holds of one run: which name lies in which file, and up to where `metrics.db` was read."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from palaestra.contracts.errors import PalaestraError
from palaestra.runs.files import finite, read_json, write_json
from palaestra.runs.metrics_reader import WrittenSample
from palaestra.runs.series_file import Extent

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.runs.series_points import Points

FORMAT = 1
BOOK = "book.json"


@dataclass
class SeriesBook:
    """Changed in place only by whoever made a copy for it."""

    identity: int  # inode of the database that was read
    newest_sample: int = 0
    furthest: WrittenSample | None = None
    files: dict[str, str] = field(default_factory=dict)  # name of the metric -> name of its file
    extents: dict[str, Extent] = field(default_factory=dict)
    timings: set[str] = field(default_factory=set)  # names that stand for a timing
    last: dict[str, tuple[int, float, float]] = field(default_factory=dict)  # step, at, value

    def copied(self) -> SeriesBook:
        return replace(
            self, files={**self.files}, extents={**self.extents}, timings=set(self.timings), last={**self.last}
        )

    def admits(self, name: str, is_metric: bool) -> bool:
        """Make room for a name; False for a timing when there is a metric of that name."""
        if name not in self.files:
            self.files[name] = f"{len(self.files)}.points"
            self.extents[name] = Extent()
            if not is_metric:
                self.timings.add(name)
        elif is_metric and name in self.timings:
            self.timings.discard(name)
            self.extents[name] = Extent()
            self.last.pop(name, None)
        return is_metric or name in self.timings

    def last_step(self, name: str) -> int | None:
        return self.last[name][0] if name in self.last else None

    def remember(self, name: str, newest: Points) -> None:
        step, at, value = newest[0].tolist()
        self.last[name] = (int(step), float(at), float(value))


def write_book(place: Path, book: SeriesBook) -> None:
    curves = [
        {
            "name": name,
            "file": file,
            "count": book.extents[name].count,
            "checksum": book.extents[name].checksum,
            "timing": name in book.timings,
            "last": finite(list(book.last[name])) if name in book.last else None,
        }
        for name, file in book.files.items()
    ]
    furthest = None if book.furthest is None else list(book.furthest)
    content = {
        "format": FORMAT,
        "identity": book.identity,
        "newest": book.newest_sample,
        "furthest": furthest,
        "curves": curves,
    }
    write_json(place / BOOK, content, durable=False)


def read_book(place: Path) -> SeriesBook | None:
    """None when there is none, or none that makes sense: then it is made anew."""
    try:
        content = read_json(place / BOOK)
        return _decoded(content) if content["format"] == FORMAT else None
    except (PalaestraError, KeyError, TypeError, ValueError, AttributeError):
        return None


def _decoded(content: dict[str, Any]) -> SeriesBook:
    furthest = content["furthest"]
    book = SeriesBook(
        identity=int(content["identity"]),
        newest_sample=int(content["newest"]),
        furthest=WrittenSample(int(furthest[0]), int(furthest[1]), float(furthest[2])) if furthest else None,
    )
    for number, curve in enumerate(content["curves"]):
        name = str(curve["name"])
        if curve["file"] != f"{number}.points" or name in book.files:
            raise ValueError(f"{name} lies in {curve['file']}")
        book.files[name] = curve["file"]
        book.extents[name] = Extent(int(curve["count"]), int(curve["checksum"]))
        if curve["timing"]:
            book.timings.add(name)
        if curve["last"] is not None:
            step, at, value = curve["last"]
            book.last[name] = (int(step), float(at), float(value) if value != "NaN" else math.nan)
    return book
