import sys
from types import SimpleNamespace

import pytest

from palaestra.core.errors import RunFailed
from palaestra.evaluation.pool import Program
from palaestra.runner import match_external
from palaestra.runner.match_external import ExternalSeat

PLAYER = """
import json, os, sys
answers = int(sys.argv[1])
say = lambda message: os.write(answers, json.dumps(message).encode() + b"\\n")
start, length = json.loads(sys.stdin.readline()), 0
for line in sys.stdin:
    command = json.loads(line)
    if "begin" in command:
        length = 0
        [seed] = command["begin"]["seeds"]
        if seed == 13:
            say({"error": "The checkpoint cannot be played: no such class.", "hint": ""})
            continue
        if seed == 14:
            sys.exit(3)
    elif "step" in command:
        length += 1
    else:
        continue
    say({"at": {"reward": 1.0, "total_reward": seed + length, "length": length, "is_over": length == 3}})
"""


def checkpoint(epoch):
    program = Program((sys.executable, "-c", PLAYER), {})
    policy = SimpleNamespace(match_player=lambda: ({"weights": epoch}, program))
    return SimpleNamespace(policy=policy, checkpoint=SimpleNamespace(epoch=epoch, env={"id": "CartPole-v1"}))


@pytest.fixture
def seat(tmp_path):
    made = ExternalSeat(1, tmp_path / "buffer")
    made.load(checkpoint(5))
    yield made
    made.close()


def test_an_episode_is_played_step_by_step_by_the_other_process(seat):
    assert seat.is_over
    seat.begin(10, deterministic=True)
    assert (seat.seed, seat.length, seat.total_reward, seat.is_over) == (10, 0, 10, False)
    assert [seat.step(0) for _ in range(3)] == [False, False, True]
    assert (seat.length, seat.total_reward) == (3, 13)
    seat.show()
    seat.begin(20, deterministic=True)
    assert (seat.length, seat.total_reward, seat.is_over) == (0, 20, False)


def test_a_newer_checkpoint_has_a_process_of_its_own_and_the_same_one_keeps_it(seat):
    first = seat._process.pid
    seat.load(checkpoint(5))
    assert seat._process.pid == first
    seat.load(checkpoint(6))
    assert seat._process.pid != first
    seat.begin(10, deterministic=False)
    assert not seat.is_over


def test_what_cannot_be_played_is_said_in_its_own_words(seat):
    with pytest.raises(RunFailed, match="no such class"):
        seat.begin(13, deterministic=False)


def test_a_process_that_ends_ends_the_match_with_a_reason(seat):
    with pytest.raises(RunFailed, match="that plays the script's policy has ended"):
        seat.begin(14, deterministic=False)


def test_a_process_that_says_nothing_is_not_waited_for_forever(seat, monkeypatch):
    monkeypatch.setattr(match_external, "ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(seat._process, "send", lambda _command: None)
    with pytest.raises(RunFailed, match=r"within 0\.05 s"):
        seat.begin(10, deterministic=False)
