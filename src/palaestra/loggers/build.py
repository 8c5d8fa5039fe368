"""From configuration to sinks: the one place that knows which there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.core import plugins
from palaestra.core.clock import SystemClock
from palaestra.loggers.console import ConsoleSink
from palaestra.loggers.csv import CsvSink
from palaestra.loggers.downsampling import Downsampler
from palaestra.loggers.fanout import Fanout
from palaestra.loggers.store import MetricsSink
from palaestra.loggers.tensorboard import TensorBoardSink
from palaestra.loggers.wandb import WandbSink

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from palaestra.config.sinks import SinksConfig
    from palaestra.core.clock import Clock
    from palaestra.core.sink import Sink
    from palaestra.loggers.status import RunHeader
    from palaestra.runs.directory import RunDirectory


def build_sinks(
    config: SinksConfig,
    run: RunDirectory,
    header: RunHeader,
    settings: Mapping[str, Any],
    on_dropped: Callable[[str, Exception], None],
    clock: Clock | None = None,
) -> Fanout:
    """`settings` is the whole configuration as plain data, to be shown beside the curves.

    A sink that cannot be made (no W&B, a read-only directory) is reported through `on_dropped`; only a plugin name
    that nobody knows is an error, because it is a typing mistake and the run has not begun.
    """
    clock = clock or SystemClock()
    plugin_makers = [(name, plugins.load("loggers", name)) for name in config.plugins]
    sinks = Fanout(on_dropped, Downsampler(is_on=config.downsample))
    sinks.add("metrics", lambda: MetricsSink(run.metrics_file))
    if config.console:
        sinks.add("console", lambda: ConsoleSink(header, clock), every_sample=True)
    if config.tensorboard:
        sinks.add("tensorboard", lambda: TensorBoardSink(run.tensorboard, settings, clock))
    if config.csv:
        sinks.add("csv", lambda: CsvSink(run.metrics_csv_file))
    if config.wandb.enabled:
        sinks.add("wandb", lambda: WandbSink(config.wandb, run, header.name, settings))
    for name, make in plugin_makers:
        sinks.add(name, _plugin_sink(make, run, settings), every_sample=True)
    return sinks


def _plugin_sink(
    make: Callable[[RunDirectory, Mapping[str, Any]], Sink], run: RunDirectory, settings: Mapping[str, Any]
) -> Callable[[], Sink]:
    return lambda: make(run, settings)
