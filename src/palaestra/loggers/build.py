"""Builds the metrics loggers that a configuration asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.core import plugins
from palaestra.core.clock import SystemClock
from palaestra.core.lazy_import import lazy_import
from palaestra.loggers.console import ConsoleLogger
from palaestra.loggers.downsampling import Downsampler
from palaestra.loggers.fanout import LoggerFanout
from palaestra.loggers.store import MetricsStoreLogger
from palaestra.loggers.tensorboard import TensorBoardLogger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from palaestra.config.loggers import LoggersConfig
    from palaestra.core.clock import Clock
    from palaestra.core.metrics_logger import MetricsLogger
    from palaestra.loggers import csv
    from palaestra.loggers.status import RunHeader
    from palaestra.loggers.wandb import logger as wandb
    from palaestra.runs.directory import RunDirectory
else:
    csv = lazy_import("palaestra.loggers.csv")
    wandb = lazy_import("palaestra.loggers.wandb.logger")


def build_loggers(
    config: LoggersConfig,
    run: RunDirectory,
    header: RunHeader,
    settings: Mapping[str, Any],
    on_dropped: Callable[[str, Exception], None],
    clock: Clock | None = None,
) -> LoggerFanout:
    """`settings` is the whole configuration as plain data, to be shown beside the curves.

    A logger that cannot be created (no W&B, a read-only directory) is reported through `on_dropped`; only a plugin name
    that does not exist is an error, because the run has not started yet.
    """
    clock = clock or SystemClock()
    plugin_makers = [(name, plugins.load("loggers", name)) for name in config.plugins]
    loggers = LoggerFanout(on_dropped, Downsampler(is_on=config.downsample))
    loggers.add("metrics", lambda: MetricsStoreLogger(run.metrics_file))
    if config.console:
        loggers.add("console", lambda: ConsoleLogger(header, clock), every_sample=True)
    if config.tensorboard:
        loggers.add("tensorboard", lambda: TensorBoardLogger(run.tensorboard, settings, clock))
    if config.csv:
        loggers.add("csv", lambda: csv.CsvLogger(run.metrics_csv_file))
    if config.wandb.enabled:
        loggers.add("wandb", lambda: wandb.WandbLogger(config.wandb, run, header.name, settings))
    for name, make in plugin_makers:
        loggers.add(name, _plugin_logger(make, run, settings), every_sample=True)
    return loggers


def _plugin_logger(
    make: Callable[[RunDirectory, Mapping[str, Any]], MetricsLogger], run: RunDirectory, settings: Mapping[str, Any]
) -> Callable[[], MetricsLogger]:
    return lambda: make(run, settings)
