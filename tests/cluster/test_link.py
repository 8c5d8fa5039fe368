"""The link to the process that speaks with Ray, with a script in that process's place."""

import os
import signal
import time
from pathlib import Path

import pytest

from palaestra.cluster import link as link_module
from palaestra.cluster.link import Link
from palaestra.config.distributed import ClusterConfig
from palaestra.core.errors import RunFailed

PATIENCE_SECONDS = 60.0
HEAD = """
import json, os, sys, time
fd = int(sys.argv[1])
say = lambda **message: os.write(fd, json.dumps(message).encode() + b"\\n")
"""
ECHO = f"""{HEAD}
say(ready=True)
for line in sys.stdin:
    say(id=1, heard=len(line), start=json.loads(line).get("cluster", dict()).get("address"))
"""
HERE = ClusterConfig()


class SetClock:
    now_seconds = 100.0

    def monotonic(self):
        return self.now_seconds

    def now(self):
        return self.now_seconds


@pytest.fixture
def open_link(tmp_path, monkeypatch):
    links = []

    def start(script, cluster=HERE, log=None, clock=None):
        (tmp_path / "stand_in_driver.py").write_text(script)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(link_module, "DRIVER", "stand_in_driver")
        links.append(Link(cluster, log, clock))
        return links[-1]

    yield start
    for link in links:
        link.close()


def heard(link, count):
    messages, deadline = [], time.monotonic() + PATIENCE_SECONDS
    while len(messages) < count:
        assert time.monotonic() < deadline, f"only {messages} came"
        link.wait(0.1)
        messages += link.hear()
    return messages


def failure(link):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        link.wait(0.1)
        try:
            link.hear()
        except RunFailed as error:
            return error
    pytest.fail("it did not fail")


def test_what_is_said_arrives_and_is_answered(open_link):
    link = open_link(ECHO, ClusterConfig(address="head:6379"))
    link.say({"id": 1})
    assert [message["start"] for message in heard(link, 2)] == ["head:6379", None]
    pid = link.pid
    link.close()
    link.close()
    assert not Path(f"/proc/{pid}").exists()


def test_nobody_waits_for_a_process_that_does_not_listen(open_link):
    link = open_link(HEAD + "time.sleep(600)\n")
    began = time.monotonic()
    for _ in range(50):
        link.say({"text": "x" * 100_000})
    assert time.monotonic() - began < 5
    os.kill(link.pid, signal.SIGKILL)


def test_much_that_is_said_at_once_arrives_whole(open_link):
    link = open_link(ECHO)
    for _ in range(20):
        link.say({"text": "x" * 100_000})
    sizes = [message["heard"] for message in heard(link, 21)]
    assert sizes[1:] == [len('{"text": ""}\n') + 100_000] * 20


def test_its_own_reason_is_handed_on(open_link):
    link = open_link(HEAD + "say(error='No cluster.', hint='Start one.', exit_code=2)\n")
    error = failure(link)
    assert (error.message, error.hint, error.exit_code) == ("No cluster.", "Start one.", 2)


def test_one_that_dies_is_named_with_its_end(open_link):
    link = open_link(HEAD + "say(ready=True)\nsys.stdin.readline()\nos.kill(os.getpid(), 6)\n")
    error = failure(link)
    assert error.message == "Ray on this machine is gone: the process that spoke with it was ended by SIGABRT."


def test_what_it_said_before_it_died_is_heard(open_link):
    link = open_link(HEAD + "say(id=1, last=True)\nos._exit(3)\n")
    assert heard(link, 1) == [{"id": 1, "last": True}]
    assert "exit code 3" in failure(link).message


@pytest.mark.parametrize(
    ("script", "limit"),
    [
        ("time.sleep(600)\n", link_module.OPEN_SECONDS),
        ("say(ready=True)\ntime.sleep(600)\n", link_module.SILENT_SECONDS),
    ],
)
def test_one_that_falls_silent_is_given_up_in_time(open_link, script, limit):
    clock = SetClock()
    link = open_link(HEAD + script, ClusterConfig(address="head:1"), clock=clock)
    if "ready" in script:
        link.wait(PATIENCE_SECONDS)
    assert link.hear() == []
    clock.now_seconds += limit - 1
    assert link.hear() == []
    clock.now_seconds += 2
    with pytest.raises(RunFailed, match=f"Ray at head:1 has not answered for {limit:g} s"):
        link.hear()
    assert not Path(f"/proc/{link.pid}").exists()


def test_what_it_prints_goes_to_the_log_and_nowhere_else(open_link, tmp_path, capfd):
    link = open_link(
        HEAD + "print('noise', flush=True)\nprint('more', file=sys.stderr)\nsay(id=1)\n", log=tmp_path / "log"
    )
    heard(link, 1)
    failure(link)
    assert (tmp_path / "log").read_text().split() == ["noise", "more"]
    assert capfd.readouterr() == ("", "")


def test_a_note_is_a_warning_and_no_answer(open_link, caplog):
    link = open_link(HEAD + "say(ready=True)\nsay(note='Node left out: b.')\nsay(id=1)\nsys.stdin.read()\n")
    assert heard(link, 1) == [{"id": 1}]
    assert [record.getMessage() for record in caplog.records] == ["Node left out: b."]
