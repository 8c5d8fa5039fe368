"""What a cache of curves holds of one run: which curves, and up to where `metrics.db` was read."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import PalaestraError
from palaestra.runs.files import finite, read_json, write_json
from palaestra.runs.metrics_reader import WrittenSample
from palaestra.runs.series_curve import LEVELS, Curve
from palaestra.runs.series_file import Extent

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FORMAT = 3
BOOK = "book.json"


@dataclass(frozen=True)
class SeriesBook:
    identity: int  # inode of the database that was read
    newest_sample: int = 0
    furthest: WrittenSample | None = None
    curves: dict[str, Curve] = field(default_factory=dict)

    def with_curve(self, name: str, curve: Curve) -> SeriesBook:
        return replace(self, curves={**self.curves, name: curve})


def room_for(curves: Mapping[str, Curve], name: str, is_metric: bool) -> Curve | None:
    """The curve that further points of this name go to; None for a timing where there is a metric of that name."""
    known = curves.get(name)
    if known is None:
        return Curve(len(curves), is_metric)
    if known.is_metric and not is_metric:
        return None
    return known if known.is_metric == is_metric else Curve(known.number, is_metric)


def write_book(place: Path, book: SeriesBook) -> None:
    content = {
        "format": FORMAT,
        "identity": book.identity,
        "newest": book.newest_sample,
        "furthest": None if book.furthest is None else list(book.furthest),
        "curves": [_plain(name, curve) for name, curve in book.curves.items()],
    }
    write_json(place / BOOK, content, durable=False)


def read_book(place: Path) -> SeriesBook | None:
    """None when there is none, or none that makes sense: then it is made anew."""
    try:
        content = read_json(place / BOOK)
        return _decoded(content) if content["format"] == FORMAT else None
    except (PalaestraError, KeyError, TypeError, ValueError, AttributeError):
        return None


def _plain(name: str, curve: Curve) -> dict[str, Any]:
    return {
        "name": name,
        "number": curve.number,
        "is_metric": curve.is_metric,
        "extents": [[extent.count, extent.checksum] for extent in (curve.points, *curve.levels)],
        "last": None if curve.last is None else finite(list(curve.last)),
        "is_in_time": curve.is_in_time,
        "has_intervals": curve.has_intervals,
    }


def _decoded(content: dict[str, Any]) -> SeriesBook:
    furthest = content["furthest"]
    curves: dict[str, Curve] = {}
    for number, plain in enumerate(content["curves"]):
        if plain["number"] != number or plain["name"] in curves:
            raise ValueError(f"{plain['name']} has number {plain['number']}")
        curves[str(plain["name"])] = _curve(plain)
    return SeriesBook(
        identity=int(content["identity"]),
        newest_sample=int(content["newest"]),
        furthest=WrittenSample(int(furthest[0]), int(furthest[1]), float(furthest[2])) if furthest else None,
        curves=curves,
    )


def _curve(plain: dict[str, Any]) -> Curve:
    points, *levels = (Extent(int(count), int(checksum)) for count, checksum in plain["extents"])
    if len(levels) != len(LEVELS):
        raise ValueError(f"{len(levels)} levels")
    last = None
    if plain["last"] is not None:
        step, at, value = plain["last"]
        last = (int(step), float(at), math.nan if value == "NaN" else float(value))
    flags = bool(plain["is_in_time"]), bool(plain["has_intervals"])
    return Curve(int(plain["number"]), bool(plain["is_metric"]), points, tuple(levels), last, *flags)
