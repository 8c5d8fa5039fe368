"""Requests made up from our own OpenAPI document: no answer is ever our fault, and each is one that is declared."""

from __future__ import annotations

import logging
import os
from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings

from palaestra.web.app import all_routes
from palaestra.web.openapi import build_openapi

SAMPLE = 250
FULL = int(os.environ.get("PALAESTRA_REQUESTS", "50000"))
ELSEWHERE = ("/api/tensorboard",)  # starts a program; its own tests ask it strange things


class Asking:
    """Counts what comes back."""

    def __init__(self, client):
        self.client = client
        self.statuses = Counter()

    def ask(self, case):
        """Every other one is about a run that is there: behind a 404 nothing else is tried."""
        if "id" in (case.path_parameters or {}) and self.statuses.total() % 2:
            case.path_parameters["id"] = "first"
        arguments = case.as_transport_kwargs()
        headers = {name: value for name, value in (arguments.get("headers") or {}).items() if _can_be_sent(name, value)}
        reply = self.client.request(
            case.method,
            case.formatted_path,
            params=arguments.get("params"),
            headers={**headers, **_content_type(case)},
            **_body(arguments),
        )
        self.statuses[reply.status_code] += 1
        assert reply.status_code < 500 or reply.status_code in {503, 507}, (case, reply.text)
        declared = {int(status) for status in case.operation.definition.raw["responses"]}
        assert reply.status_code in declared, (case.method, case.formatted_path, reply.status_code, reply.text)


def _can_be_sent(name, value):
    text = str(value)
    return name.lower() not in {"host", "origin", "authorization"} and text.isprintable() and text.isascii()


def _content_type(case):
    return {"content-type": case.media_type} if case.media_type else {"content-type": "application/json"}


def _body(arguments):
    return {"json": arguments["json"]} if "json" in arguments else {}


def operations():
    document = build_openapi(all_routes())
    schema = schemathesis.openapi.from_dict(document)
    found = [operation.ok() for operation in schema.get_all_operations()]
    return [one for one in found if not one.path.startswith(ELSEWHERE)]


def ask_all(client, daemon, monkeypatch, count):
    """Spread evenly; submitted runs are only queued, because nothing runs here."""
    logging.getLogger("palaestra").setLevel(logging.ERROR)
    asking = Asking(client)
    chosen = operations()
    each = max(1, count // len(chosen))
    for operation in chosen:

        @seed(7)
        @settings(
            max_examples=each,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            database=None,
        )
        @given(case=operation.as_strategy())
        def play(case):
            asking.ask(case)

        play()
    return asking.statuses


@pytest.fixture
def quiet(daemon, monkeypatch):
    monkeypatch.setattr(daemon._supervisor, "wake", lambda: None)
    return daemon


def report(figure, statuses):
    """503 and 507 are refusals: no place in the queue, no room on the disk."""
    figure("made-up requests", sum(statuses.values()))
    figure("5xx other than 503 and 507", sum(statuses[code] for code in statuses if code in {500, 501, 502, 504}))


@pytest.mark.fault("W8")
@pytest.mark.slow
def test_a_sample_of_generated_requests_gets_only_declared_responses(
    client, quiet, make_run, save_checkpoint, monkeypatch, figure
):
    save_checkpoint(make_run("first"))
    statuses = ask_all(client, quiet, monkeypatch, SAMPLE)
    report(figure, statuses)
    assert sum(statuses.values()) >= SAMPLE // 2
    assert len(statuses) >= 4


@pytest.mark.fault("W8")
@pytest.mark.chaos
@pytest.mark.timeout(7200)
def test_fifty_thousand_generated_requests_get_only_declared_responses(
    client, quiet, make_run, save_checkpoint, monkeypatch, figure
):
    save_checkpoint(make_run("first"))
    statuses = ask_all(client, quiet, monkeypatch, FULL)
    report(figure, statuses)
    assert sum(statuses.values()) >= FULL * 0.9
