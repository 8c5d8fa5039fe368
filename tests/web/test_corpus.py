"""Hostile words for every hole of every path: nothing outside the store is opened, and nothing is ever a 5xx."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.routing import Route

from palaestra.web.app import build_inner_app
from palaestra.web.request_parsing import parse_json
from palaestra.web.responses import HttpError

SOURCE = Path(__file__).parents[2] / "src"
WATCHED: list[set[str] | None] = [None]  # paths opened while a test listens; a hook cannot be taken out again


def _hear(event, arguments):
    if event == "open" and WATCHED[0] is not None and isinstance(arguments[0], str | bytes):
        name = arguments[0].decode(errors="replace") if isinstance(arguments[0], bytes) else arguments[0]
        WATCHED[0].add(name)


sys.addaudithook(_hear)


def traversals(secret):
    """More than 300 ways to say: that file over there."""
    targets = ["etc/passwd", secret.lstrip("/"), "secret.txt", "runs-secret/secret.txt"]
    ups = ["../" * depth for depth in (1, 2, 3, 4, 5, 6, 8, 12)]
    ups += [up.replace("/", "\\") for up in ups] + ["..;/", ".../", "....//", "..%2f", "..%5c", "%2e%2e/", "%2e%2e%2f"]
    ups += ["..%252f", "%252e%252e%252f", "%c0%ae%c0%ae/", "..%c0%af", "..%00/", "\u2025/", "\uff0e\uff0e/", "..\u2215"]
    words = [up + target for up in ups for target in targets]
    words += [f"first/{word}" for word in words]
    words += [f"/{target}" for target in targets] + [f"//{target}" for target in targets]
    words += [f"file:///{target}" for target in targets] + [f"C:\\{target}" for target in targets]
    words += [
        "..",
        ".",
        "...",
        "~",
        "~root",
        "",
        " ",
        "%00",
        "\x00",
        "first\x00.json",
        "first%00",
        "CON",
        "-",
        "--help",
    ]
    words += [
        ".palaestra/token",
        ".palaestra",
        "by-name/first",
        "by-name",
        ".lock",
        "daemon.db",
        "linked",
        "linked.mp4",
    ]
    words += ["*", "?", "[a-z]", "$(id)", "`id`", "|id", ";id", "&", "'", '"', "<script>", "{id}", "%s%n", "\u202e"]
    words += ["A" * 300, "a/" * 200, "%ff", "%f0%9f", "\udcff".encode("utf-8", "surrogateescape").decode("latin-1")]
    return list(dict.fromkeys(words))


def addresses(context, word):
    """Each path of the live table with the word in one hole after the other, said plainly and quoted."""
    for route in build_inner_app(context).routes:
        if not isinstance(route, Route) or "{" not in route.path:
            continue
        holes = re.findall(r"\{\w+(?::\w+)?\}", route.path)
        for hole in holes:
            path = route.path.replace(hole, "\0")
            for other in holes:
                path = path.replace(other, "first" if "id" in other else "1")
            for reported in {quote(word, safe="/%\\"), quote(word, safe="")}:
                yield path.replace("\0", reported)


@pytest.fixture
def store(tmp_path, make_run, save_checkpoint):
    """One run with something of everything, links that lead out, and a secret beside the store."""
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    (tmp_path / "runs-secret").mkdir()
    (tmp_path / "runs-secret" / "secret.txt").write_text("secret")
    run = make_run("first")
    save_checkpoint(run)
    for folder in (run.videos, run.replays, run.artifacts, run.evaluations):
        (folder / "1").write_text("fine")
        (folder / "linked").symlink_to(secret)
        (folder / "linked.mp4").symlink_to(secret)
    return secret


def ask_all(client, context, root, words, every):
    """(files opened outside of the store, how often each status came) when every so-manieth address is asked."""
    opened: set[str] = set()
    counts: Counter[int] = Counter()
    requested = [address for word in words for address in addresses(context, word)][::every]
    WATCHED[0] = opened
    try:
        for address in requested:
            reply = client.get(address)
            counts[reply.status_code] += 1
            assert reply.content != b"secret", address
    finally:
        WATCHED[0] = None
    inside = (root, str(SOURCE), sys.prefix, sys.base_prefix, "/proc/", "/dev/", "/sys/")
    return [name for name in opened if name.startswith("/") and not name.startswith(inside)], counts


@pytest.mark.fault("W9")
@pytest.mark.parametrize(
    "every",
    [
        pytest.param(23, marks=pytest.mark.slow, id="sample"),
        pytest.param(1, marks=[pytest.mark.chaos, pytest.mark.timeout(1800)], id="all"),
    ],
)
def test_no_input_opens_a_file_outside_of_the_runs_directory(client, context, daemon, store, every, figure):
    words = traversals(str(store))
    assert len(words) >= 300
    outside, counts = ask_all(client, context, str(daemon.root), words, every)
    figure("words", len(words))
    figure("requests", sum(counts.values()))
    figure("files opened outside", len(outside))
    assert outside == []
    assert [status for status in counts if status >= 500] == []


@pytest.mark.fault("W9")
def test_the_audit_hook_records_opened_files(tmp_path):
    WATCHED[0] = set()
    try:
        (tmp_path / "x").write_text("y")
        assert str(tmp_path / "x") in WATCHED[0]
    finally:
        WATCHED[0] = None


MALFORMED = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'"text"',
    b"{'a': 1}",
    b'{"recipe": NaN}',
    b'{"config": {"ppo": {"gamma": Infinity}}}',
    b'{"config": {"a": 1e999}}',
    b'{"recipe": "a", "recipe": "b"}',
    b'{"config": {"x": 1, "x": 2}}',
    b'{"name": "\\ud800"}',
    b'{"name": "\\u0000"}',
    b'{"config": {"\\ud800": 1}}',
    b"[" * 100_000,
    b'{"config":' * 5000,
    b"\xff\xfe\x00",
    b'{"nproc": 1e400}',
    b'{"nproc": 99999999999999999999999}',
    b'{"priority": -99999999999999999999999}',
    b'{"config": {"total_steps": ' + b"9" * 5000 + b"}}",
    b'{"config": "text"}',
    b'{"config": {"env": {"id": 5}}}',
    b'{"config": {"": {"": {}}}}',
    b'{"kind": "../../etc"}',
    b'{"limits": {"memory": -1}}',
    b'{"config": {"__class__": "x", "model_config": {}}}',
]


@pytest.mark.fault("W8")
@pytest.mark.parametrize("path", ["/api/runs", "/api/requests/check", "/api/requests/parse", "/api/login"])
def test_malformed_bodies_are_client_errors(client, path):
    for content in MALFORMED:
        reply = client.post(path, content=content, headers={"content-type": "application/json"})
        assert 200 <= reply.status_code < 500, (content[:60], reply.text)
        if reply.status_code >= 400:
            assert reply.json()["error"]["message"]
    assert client.get("/api/runs").json()["total"] == 0


@pytest.mark.fault("W8", "X1")
@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_parsed_or_refused(content):
    try:
        parse_json(content)
    except HttpError as refusal:
        if refusal.status != 400:
            raise
