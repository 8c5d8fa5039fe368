"""Metrics of runs: downsampled series of many runs in one request, and new points since the last request."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypedDict

import numpy as np
from pydantic import Field
from starlette.responses import Response

from palaestra.core.errors import NotFound
from palaestra.runs.metrics.buckets import BLOCK, SeriesBuckets, to_buckets
from palaestra.runs.metrics.reader import MetricsReader
from palaestra.web.endpoints import Call, Endpoint
from palaestra.web.request_parsing import Query
from palaestra.web.resources.series_refresh import series_cache
from palaestra.web.responses import HttpError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from palaestra.runs.directory import RunDirectory
    from palaestra.runs.metrics.buckets import Axis, SeriesBuckets

MAX_SERIES = 400
FIRST_STEP, LAST_STEP = -(1 << 62), 1 << 62
RETURN = "charts/episodic_return"
COLUMNS_MEDIA = "application/octet-stream"
COLUMNS = ("x", "min", "max", "mean", "count", "bad")
DOUBLE = np.dtype("<f8")


class Window(Query):
    buckets: int = Field(600, ge=1, le=5000, description="number of buckets; with fewer points, every point")
    start: float | None = Field(None, alias="from", allow_inf_nan=False, description="first x, inclusive")
    end: float | None = Field(None, alias="to", allow_inf_nan=False, description="last x, inclusive")
    axis: Literal["step", "time", "elapsed"] = Field(
        "step", description="x: environment steps, seconds since 1970, or seconds since the start of the run"
    )


class SeriesQuery(Window):
    form: Literal["json", "columns"] = Field("json", description="JSON, or columns of binary doubles")
    run: tuple[str, ...] = Field(min_length=1, max_length=200, description="runs; may be repeated")
    name: tuple[str, ...] = Field(min_length=1, max_length=200, description="metrics; may be repeated")


class SparklineQuery(Query):
    name: str = Field(RETURN, description="the metric")
    buckets: int = Field(40, ge=1, le=500, description="points of the line")


class SparklinesQuery(SparklineQuery):
    run: tuple[str, ...] = Field(min_length=1, max_length=200, description="runs; may be repeated")


class TailQuery(Query):
    after: int = Field(0, ge=0, le=LAST_STEP, description="the `row` of the last response")
    limit: int = Field(1000, ge=1, le=10_000, description="samples; one sample has a point of every metric")


class LastPoint(TypedDict):
    step: int
    value: float | None


class MetricNames(TypedDict):
    names: list[str]
    last: dict[str, LastPoint]


class Series(TypedDict):
    """A downsampled series: every list has one entry for each bucket."""

    run: str
    name: str
    x: list[float]
    min: list[float | None]
    max: list[float | None]
    mean: list[float | None]
    count: list[int]
    bad: list[int]  # non-finite values


class SeriesList(TypedDict):
    series: list[Series]


class MetricPoint(TypedDict):
    row: int
    step: int
    name: str
    value: float | None


class MetricTail(TypedDict):
    points: list[MetricPoint]
    row: int  # `after` of the next request


def show_names(call: Call) -> MetricNames:
    """Returns metric names with their newest values."""
    directory = call.directory()
    try:
        newest = series_cache(call.context).newest(directory)
    except NotFound:
        newest = {}
    last: dict[str, LastPoint] = {
        name: {"step": point.step, "value": _number(point.value)} for name, point in newest.items()
    }
    return {"names": list(newest), "last": last}


def show_series(call: Call) -> SeriesList | Response:
    wanted: SeriesQuery = call.query
    if len(wanted.run) * len(wanted.name) > MAX_SERIES:
        requested = f"{len(wanted.run)} runs x {len(wanted.name)} metrics"
        raise HttpError(422, f"Too many series: {requested} (at most {MAX_SERIES}).")
    directories = [call.context.daemon.directory(run) for run in wanted.run]
    if wanted.form == "json":
        return {"series": [_series(call, directory, name, wanted) for directory in directories for name in wanted.name]}
    found = [(one.id, name, _read_buckets(call, one, name, wanted)) for one in directories for name in wanted.name]
    return Response(pack_columns(found), media_type=COLUMNS_MEDIA)


def show_sparkline(call: Call) -> Series:
    window = Window.model_validate({"buckets": call.query.buckets})
    return _series(call, call.directory(), call.query.name, window)


def show_sparklines(call: Call) -> SeriesList:
    wanted: SparklinesQuery = call.query
    window = Window.model_validate({"buckets": wanted.buckets})
    directories = [directory for run in wanted.run if (directory := _find_directory(call, run)) is not None]
    return {"series": [_series(call, directory, wanted.name, window) for directory in directories]}


def _find_directory(call: Call, run: str) -> RunDirectory | None:
    """Returns None for a run that was removed since the table was listed."""
    try:
        return call.context.daemon.directory(run)
    except NotFound:
        return None


def show_tail(call: Call) -> MetricTail:
    """Returns points in the order in which they were written. A resumed run writes removed points again as new rows."""
    after, directory = call.query.after, call.directory()
    try:
        with MetricsReader(directory.metrics_file) as reader:
            points = reader.tail(after, call.query.limit)
            row = points[-1].sample if points else min(after, reader.newest_sample())
    except NotFound:
        points, row = [], 0
    return {
        "points": [
            {"row": point.sample, "step": point.step, "name": point.name, "value": _number(point.value)}
            for point in points
        ],
        "row": row,
    }


def _series(call: Call, directory: RunDirectory, name: str, window: Window) -> Series:
    found = _read_buckets(call, directory, name, window)
    return {
        "run": directory.id,
        "name": name,
        "x": found.x.tolist(),
        "min": _numbers(found.min),
        "max": _numbers(found.max),
        "mean": _numbers(found.mean),
        "count": found.count.tolist(),
        "bad": found.bad.tolist(),
    }


def _read_buckets(call: Call, directory: RunDirectory, name: str, window: Window) -> SeriesBuckets:
    """Reads a series; empty if the run has no such metric, so that one chart can show runs of several kinds."""
    axis, origin = _axis(call, directory, window)
    start, end = _bounds(window, origin)
    try:
        found = series_cache(call.context).chart(directory, name, window.buckets, axis, start, end)
    except NotFound:
        return to_buckets(np.empty(0, BLOCK), 1)
    return replace(found, x=found.x - origin) if origin else found


def _axis(call: Call, directory: RunDirectory, window: Window) -> tuple[Axis, float]:
    """Returns the axis of the cached series, and the position of the requested zero on it."""
    if window.axis != "elapsed":
        return window.axis, 0.0
    record = call.context.daemon.get(directory.id).record
    return "time", record.created_at if record.started_at is None else record.started_at


def _bounds(window: Window, origin: float) -> tuple[float | None, float | None]:
    """Returns the range on the cached axis; steps are compared as integers."""
    if window.axis != "step":
        start, end = (None if edge is None else edge + origin for edge in (window.start, window.end))
        return start, end
    start = None if window.start is None else min(max(math.ceil(window.start), FIRST_STEP), LAST_STEP)
    end = None if window.end is None else min(max(math.floor(window.end), FIRST_STEP), LAST_STEP)
    return start, end


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    listed: list[float | None] = values.tolist()
    if np.isnan(values).any():
        return [None if value != value else value for value in listed]  # only NaN differs from itself
    return listed


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def pack_columns(curves: Sequence[tuple[str, str, SeriesBuckets]]) -> bytes:
    """Run, name and columns of each curve.

    Four bytes say how long the head is; the head is `{"series": [{run, name, length}]}`, filled up with spaces so that
    what follows begins at a multiple of eight; then the columns of the first curve one after another, of the second,
    and so on. NaN stands where nothing is known. Everything is little endian.
    """
    heads = [{"run": run, "name": name, "length": len(found.x)} for run, name, found in curves]
    head = json.dumps({"series": heads}, separators=(",", ":")).encode()
    head += b" " * (-(4 + len(head)) % DOUBLE.itemsize)
    columns = np.empty(sum(len(found.x) for *_, found in curves) * len(COLUMNS), DOUBLE)
    end = 0
    for *_, found in curves:
        for column in COLUMNS:
            begin, end = end, end + len(found.x)
            columns[begin:end] = getattr(found, column)
    return b"".join((len(head).to_bytes(4, "little"), head, columns.tobytes()))


ROUTES = (
    Endpoint(
        "GET",
        "/api/runs/{id}/metrics",
        show_names,
        "metric names with the newest values",
        response=MetricNames,
        errors=(409,),
        is_cpu_bound=True,
    ),
    Endpoint(
        "GET",
        "/api/metrics",
        show_series,
        "downsampled series of many runs; minimum and maximum are kept",
        SeriesQuery,
        response=SeriesList,
        other_media=(COLUMNS_MEDIA,),
        errors=(409,),
        is_cpu_bound=True,
    ),
    Endpoint(
        "GET",
        "/api/runs/{id}/metrics/tail",
        show_tail,
        "points after a row",
        TailQuery,
        response=MetricTail,
        errors=(409,),
    ),
    Endpoint(
        "GET",
        "/api/runs/{id}/sparkline",
        show_sparkline,
        "one small series",
        SparklineQuery,
        response=Series,
        errors=(409,),
        is_cpu_bound=True,
    ),
    Endpoint(
        "GET",
        "/api/sparklines",
        show_sparklines,
        "a small series of each run",
        SparklinesQuery,
        response=SeriesList,
        errors=(409,),
        is_cpu_bound=True,
    ),
)
