"""Which way a discovery is made. What is not asked for is not loaded: the walk needs no torch."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING

from palaestra.apps.matmul.agent_config import fits_agent
from palaestra.apps.matmul.discovery_run import Outcome, run_discovery

if TYPE_CHECKING:
    from collections.abc import Callable

    from palaestra.apps.matmul.discover_config import DiscoverConfig
    from palaestra.runs.directory import RunDirectory

AGENT = "palaestra.apps.matmul.agent_run:run_agent"


def run_method(
    open_run: Callable[[], RunDirectory], config: DiscoverConfig, say: Callable[[str], None]
) -> Outcome | None:
    """What came of it; None in a process that only helps another. `open_run` finds or makes the run's directory."""
    if config.method == "flip" or (config.method == "auto" and not fits_agent(config.product)):
        if config.method == "auto":
            say(f"{config.format} is too large for the agent: the walk goes alone.")
        return run_discovery(open_run(), config, say)
    outcome: Outcome | None = resolve_name(AGENT)(open_run, config, say)
    return outcome
