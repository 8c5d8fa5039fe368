"""One thread per test process: two processes of pytest with two threads each make two cores slower, not faster."""

import asyncio
import logging
import os

import pytest
from hypothesis import settings

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
