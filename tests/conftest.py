"""One thread per test process: two processes of pytest with two threads each make two cores slower, not faster."""

import asyncio
import logging
import os
import sys

import pytest
from hypothesis import settings

from palaestra.core import plugins

settings.register_profile("house", deadline=None)  # how long an example takes says something about the machine only
settings.load_profile("house")
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def loggers_as_before():
    """Programs that are processes of their own in truth set them up for good; the next test wants them plain."""
    before = {name: _state(logger) for name, logger in _own_loggers()}
    yield
    for name, logger in _own_loggers():
        handlers, logger.propagate, logger.disabled, level = before.get(name, ([], True, False, logging.NOTSET))
        logger.handlers = list(handlers)
        logger.setLevel(level)


@pytest.fixture(autouse=True)
def no_loop_of_a_browser(request):
    """Playwright's runs in this thread from the first test of the page to the last, and others may come in between."""
    loop = asyncio._get_running_loop()
    if loop is None or "browser" in request.fixturenames:
        yield
        return
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(loop)


@pytest.fixture(autouse=True)
def variables_as_before():
    """One of ours that a test leaves behind reaches every process that later tests start, and nobody finds out why."""
    before = _own_variables()
    yield
    left = _own_variables()
    if left != before:
        for name in left:
            del os.environ[name]
        os.environ.update(before)
    assert left == before, "this test changed variables and did not put them back"


@pytest.fixture
def install_package(tmp_path, monkeypatch):
    """`install_package(name, source, entry_points)` installs a package with one module for the duration of a test.

    `source` is the text of the module, or a dictionary from file names inside the package to their texts.
    """
    installed = []

    def install(name, source, entry_points):
        site = tmp_path / f"site-{name}"
        files = (
            {f"{name}.py": source}
            if isinstance(source, str)
            else {f"{name}/{file}": text for file, text in source.items()}
        )
        for file, text in {**files, f"{name}-1.0.dist-info/entry_points.txt": entry_points}.items():
            (site / file).parent.mkdir(parents=True, exist_ok=True)
            (site / file).write_text(text)
        (site / f"{name}-1.0.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        monkeypatch.syspath_prepend(str(site))
        installed.append(name)
        plugins.refresh()

    yield install
    monkeypatch.undo()
    plugins.refresh()
    for module in [module for module in sys.modules if module.partition(".")[0] in installed]:
        del sys.modules[module]


@pytest.fixture
def figure(record_property):
    """`figure("kills", 400)`: a number that the chaos bench shows in the row of this test."""
    return lambda name, value: record_property("figure", (name, value))


@pytest.fixture(scope="session")
def chaos_seed():
    """Added to the seeds of what is drawn; 0 unless the chaos bench was given another."""
    return int(os.environ.get("PALAESTRA_CHAOS_SEED", "0"))


def _own_variables():
    return {name: value for name, value in os.environ.items() if name.startswith("PALAESTRA_")}


def _own_loggers():
    known = logging.Logger.manager.loggerDict.items()
    return [
        (name, logger)
        for name, logger in list(known)
        if isinstance(logger, logging.Logger) and name.partition(".")[0] in {"palaestra", "uvicorn"}
    ]


def _state(logger):
    return list(logger.handlers), logger.propagate, logger.disabled, logger.level
