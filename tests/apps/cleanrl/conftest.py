from dataclasses import dataclass
from pathlib import Path

import pytest

from palaestra.apps.cleanrl.kind import KIND, PLAIN_KIND
from palaestra.contracts.run import RunRequest
from palaestra.contracts.worker_kind import Resources
from palaestra.runs.store import RunStore

SCRIPTS = Path(__file__).parent / "scripts"


@dataclass(frozen=True)
class Runs:
    """Makes runs of scripts as a daemon or the command line does."""

    store: RunStore

    def make(self, script, kind="cleanrl", **config):
        maker = {"cleanrl": KIND, "script": PLAIN_KIND}[kind]
        request = RunRequest(kind, "", {"script": str(script), **config})
        prepared = maker.prepare(request, Resources(1), self.store.root)
        return self.store.create(prepared.request, prepared.config, total_steps=prepared.total_steps)


@pytest.fixture
def runs(tmp_path):
    return Runs(RunStore(tmp_path / "store"))


@pytest.fixture
def scripts():
    return SCRIPTS
