from __future__ import annotations

import asyncio
import os
import textwrap

import psutil
import pytest

from palaestra.runner.match_plan import MatchPlan
from palaestra.web import match_process
from palaestra.web.match_process import played

PLAN = MatchPlan(seats=({"player": "first:1"},))
ECHO = """
import json, os, sys
asked = json.loads(sys.stdin.readline())
print(json.dumps({"asked": asked, "pid": os.getpid()}), flush=True)
for line in sys.stdin:
    print(json.dumps({"heard": json.loads(line)}), flush=True)
"""


@pytest.fixture
def program(monkeypatch):
    def use(text):
        monkeypatch.setattr(match_process, "PROGRAM", ("-c", textwrap.dedent(text)))

    return use


def test_the_process_is_told_the_plan_and_what_the_viewer_does_and_ends_with_the_block(program, tmp_path):
    program(ECHO)

    async def scene():
        async with played(PLAN, tmp_path, "m1") as match:
            words = match.words()
            first = await anext(words)
            match.say({"action": 3})
            return first, await anext(words)

    first, heard = asyncio.run(scene())
    assert first["asked"] == {"lane": "m1", "runs": str(tmp_path), "plan": PLAN.model_dump(mode="json")}
    assert MatchPlan.model_validate(first["asked"]["plan"]) == PLAN
    assert heard == {"heard": {"action": 3}}
    assert not psutil.pid_exists(first["pid"])


def test_a_process_that_fails_without_a_word_gives_its_last_complaint(program, tmp_path):
    program("raise SystemExit('the disk is full')")

    async def scene():
        async with played(PLAN, tmp_path, "m1") as match:
            return [word async for word in match.words()]

    (word,) = asyncio.run(scene())
    assert word["error"]["message"] == "The match ended with exit code 1: the disk is full"


def test_what_it_says_itself_is_not_said_twice(program, tmp_path):
    program('import sys\nprint(\'{"error": {"message": "no", "hint": ""}}\')\nsys.exit(3)')

    async def scene():
        async with played(PLAN, tmp_path, "m1") as match:
            return [word async for word in match.words()]

    assert asyncio.run(scene()) == [{"error": {"message": "no", "hint": ""}}]


def test_one_that_does_not_end_is_ended(program, tmp_path, monkeypatch):
    monkeypatch.setattr(match_process, "END_SECONDS", 0.1)
    program("import os, time\nprint('{\"pid\": %d}' % os.getpid(), flush=True)\nwhile True: time.sleep(1)")

    async def scene():
        async with played(PLAN, tmp_path, "m1") as match:
            return (await anext(match.words()))["pid"]

    pid = asyncio.run(scene())
    assert pid != os.getpid()
    assert not psutil.pid_exists(pid)


def test_what_is_said_to_one_that_has_ended_is_lost(program, tmp_path):
    program("pass")

    async def scene():
        async with played(PLAN, tmp_path, "m1") as match:
            assert [word async for word in match.words()] == []
            for _ in range(3):
                match.say({"action": 1})
                await asyncio.sleep(0)

    asyncio.run(scene())
