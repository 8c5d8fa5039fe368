from palaestra.algorithms.buffers.rollout_buffer import RolloutBuffer
from palaestra.core.episodes import EpisodeResult
from palaestra.core.spaces import BoxSpec
from palaestra.envs.vector import Ending
from palaestra.training.engines.landings import Landings


def ending(env_index, terminated):
    return Ending(env_index, None, EpisodeResult(None, 1.0, 5, terminated, env_index=env_index))


def test_ends_are_noted_where_they_happened_and_cuts_are_kept():
    tape = RolloutBuffer(BoxSpec((2,)), horizon=4, env_count=3)
    landings = Landings(tape)
    ends = [ending(0, True), ending(2, False)]
    landings.note(1, ends)
    landings.note(3, [])
    assert tape.starts.tolist() == [[True] * 3, [False] * 3, [True, False, True], [False] * 3, [False] * 3]
    assert tape.terminated.sum() == tape.terminated[1, 0] == 1
    assert landings.episodes == [one.episode for one in ends]
    assert landings.cuts == [(1, ends[1])]


def test_what_was_noted_before_is_forgotten_but_for_what_a_rollout_begins_with():
    tape = RolloutBuffer(BoxSpec((2,)), horizon=4, env_count=3)
    Landings(tape).note(3, [ending(1, True)])
    tape.rewind()
    Landings(tape)
    assert tape.starts[0].tolist() == [False, True, False]
    assert not tape.starts[1:].any()
    assert not tape.terminated.any()
