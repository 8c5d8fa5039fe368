import pytest

from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
from palaestra.algorithms.buffers.replay_size import replay_size
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, EnvInterface, MultiDiscreteSpec

VECTOR = BoxSpec((17,))
STACK = BoxSpec((4, 84, 84), "uint8", (0.0,), (255.0,))


def bytes_of(buffer):
    """What its arrays take, without what only some rows have."""
    arrays = [*buffer.blocks.values(), buffer.actions, buffer.rewards, buffer.ends, buffer.final_slots]
    for stack in buffer.stacks.values():
        arrays += [stack.frames, stack.ages, stack.whole.slots]
    return sum(array.nbytes for array in arrays)


@pytest.mark.parametrize(
    "space", [VECTOR, STACK, DictSpec((("pixels", STACK), ("goal", VECTOR), ("held", DiscreteSpec(4))))]
)
@pytest.mark.parametrize("action", [BoxSpec((6,)), DiscreteSpec(3), MultiDiscreteSpec((2, 3))])
@pytest.mark.parametrize("env_count", [1, 4])
def test_the_size_is_that_of_the_arrays(space, action, env_count):
    interface = EnvInterface(space, action)
    size = replay_size(interface, 2_000, env_count)
    buffer = ReplayBuffer(interface, 2_000, env_count)
    unused = buffer.rows - buffer.capacity  # the row to act on, and older frames
    assert size.memory == bytes_of(buffer) * buffer.capacity // buffer.rows
    assert unused <= 4
    assert size.transitions == 2_000


def test_a_stack_of_four_takes_a_quarter():
    size = replay_size(EnvInterface(STACK, DiscreteSpec(6)), 1_000_000, 1)
    assert size.has_frames
    assert size.memory < 7.1e9
    assert size.whole > 28e9
    vector = replay_size(EnvInterface(VECTOR, BoxSpec((6,))), 1_000_000, 1)
    assert (vector.has_frames, vector.whole, vector.disk) == (False, vector.memory, 97_000_000)
