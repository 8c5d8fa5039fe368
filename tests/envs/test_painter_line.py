import numpy as np
import pytest

from palaestra.envs.painter_line import BUFFER, LARGEST_MESSAGE, PainterLine, TooLong, Word, connected
from palaestra.envs.wire import LineClosed


@pytest.fixture
def lines():
    ends = [PainterLine(end) for end in connected()]
    yield ends
    for end in ends:
        end.close()


def test_messages_arrive_whole_and_in_order(lines):
    here, there = lines
    state = np.array([1.5, np.nan, -0.0])
    assert here.say(Word.POSE, {"slot": 3, "pose": {"state": state.tobytes()}})
    assert here.say(Word.POSE, {"slot": 4, "reward": 0.1 + 0.2})
    first, second = there.hear(), there.hear()
    assert (first.word, first.content["slot"]) == (Word.POSE, 3)
    assert first.content["pose"]["state"] == state.tobytes()
    assert second.content == {"slot": 4, "reward": 0.30000000000000004}
    assert there.hear() is None


def test_nobody_waits_where_there_is_no_room_and_what_waits_is_bounded(lines):
    here, there = lines
    said = 0
    while here.say(Word.POSE, {"slot": said, "pose": "x" * 300}):
        said += 1
        assert said * 300 < 2 * BUFFER
    assert not here.say(Word.POSE, {"slot": -1})
    assert there.hear().content["slot"] == 0
    assert here.say(Word.POSE, {"slot": said})


def test_a_message_that_never_finds_room_is_refused(lines):
    with pytest.raises(TooLong, match="bytes"):
        lines[0].say(Word.POSE, {"pose": b"x" * LARGEST_MESSAGE})
    lines[0].say(Word.POSE, {"pose": b"x" * (LARGEST_MESSAGE - 100)})
    assert len(lines[1].hear().content["pose"]) == LARGEST_MESSAGE - 100


def test_the_end_of_the_other_side_is_noticed_after_its_last_word(lines):
    here, there = lines
    here.say(Word.FAILED, {"reason": "no brush"})
    here.close()
    assert there.hear().content == {"reason": "no brush"}
    with pytest.raises(LineClosed):
        there.hear()
    with pytest.raises(LineClosed):
        there.say(Word.POSE, {})
