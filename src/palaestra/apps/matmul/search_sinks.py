"""Where the figures of a search go besides metrics.db: the trunk's sinks, without the status table of a training."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from palaestra.config.sinks import SinksConfig
from palaestra.loggers.build import build_sinks
from palaestra.loggers.status import RunHeader

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from palaestra.apps.matmul.discover_config import SearchSinks
    from palaestra.loggers.fanout import Fanout
    from palaestra.runner.session import RunSession

logger = logging.getLogger(__name__)


def open_sinks(config: SearchSinks, session: RunSession, settings: Mapping[str, Any]) -> Fanout:
    """A sink that fails is named in the log and the journal, and the search goes on without it."""

    def on_dropped(name: str, error: Exception) -> None:
        logger.warning("The sink '%s' is no longer used: %s", name, error)
        session.journal.record("sink.failed", sink=name, error=str(error))

    asked = SinksConfig(
        console=False, tensorboard=config.tensorboard, csv=config.csv, wandb=config.wandb, plugins=config.plugins
    )
    header = RunHeader(session.record.name, session.record.recipe, 0, session.directory.path)
    return build_sinks(asked, session.directory, header, settings, on_dropped)
