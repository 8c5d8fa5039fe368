from contextlib import asynccontextmanager

from starlette.testclient import TestClient

from palaestra.web import app as app_module
from palaestra.web.app import build_app
from palaestra.web.lifespans import LIFESPANS


def test_what_begins_with_the_daemon_ends_with_it_the_last_first(house, monkeypatch):
    told = []

    def named(name):
        @asynccontextmanager
        async def begin(found):
            assert found is house
            told.append(f"{name} begins")
            yield
            told.append(f"{name} ends")

        return begin

    monkeypatch.setattr(app_module, "LIFESPANS", (named("a"), named("b")))
    with TestClient(build_app(house)):
        assert told == ["a begins", "b begins"]
    assert told == ["a begins", "b begins", "b ends", "a ends"]


def test_every_lifespan_can_be_begun_with_a_house():
    assert LIFESPANS
    assert all(callable(begin) for begin in LIFESPANS)
