"""Curves as columns of doubles: a page of many charts looks at them where they lie; nobody spells numbers out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.runs.series_buckets import SeriesBuckets

MEDIA = "application/octet-stream"
COLUMNS = ("x", "min", "max", "mean", "count", "bad")
DOUBLE = np.dtype("<f8")


def pack(curves: Sequence[tuple[str, str, SeriesBuckets]]) -> bytes:
    """Run, name and columns of each curve.

    Four bytes say how long the head is; the head is `{"series": [{run, name, length}]}`, filled up with spaces so that
    what follows begins at a multiple of eight; then the columns of the first curve one after another, of the second,
    and so on. NaN stands where nothing is known. Everything is little endian.
    """
    told = [{"run": run, "name": name, "length": len(found.x)} for run, name, found in curves]
    head = json.dumps({"series": told}, separators=(",", ":")).encode()
    head += b" " * (-(4 + len(head)) % DOUBLE.itemsize)
    columns = np.empty(sum(len(found.x) for *_, found in curves) * len(COLUMNS), DOUBLE)
    end = 0
    for *_, found in curves:
        for column in COLUMNS:
            begin, end = end, end + len(found.x)
            columns[begin:end] = getattr(found, column)
    return b"".join((len(head).to_bytes(4, "little"), head, columns.tobytes()))
