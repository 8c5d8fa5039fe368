import numpy as np

from palaestra.config.train import TrainConfig
from palaestra.training.engines.torch_engine import TORCH, TorchEngine
from palaestra.training.state import new_training_state

CONFIG = TrainConfig(ppo={"env_count": 2, "horizon": 60, "minibatch_size": 60})


def test_an_iteration_learns_and_leaves_the_tape_where_playing_goes_on():
    state = new_training_state(CONFIG)
    before = state.optimizer.flat.clone()
    done = TORCH.iterate(state)
    assert not bool((state.optimizer.flat == before).all())
    assert done.update.minibatches == 8
    assert done.episodes
    assert done.times.rollout > 0
    assert np.array_equal(state.tape.rows[0], state.tape.rows[-1])
    assert state.iteration == 0  # counted by the trainer


def test_it_keeps_nothing_to_itself():
    state = new_training_state(CONFIG)
    TORCH.iterate(state)
    standing = [state.envs.standing(index) for index in range(2)]
    TORCH.hand_back(state)
    TORCH.forget()
    assert [state.envs.standing(index) for index in range(2)] == standing


def test_it_says_why_it_was_taken_when_another_was_looked_at():
    assert TORCH.about == "torch"
    assert TorchEngine("torch; native is too new").about == "torch; native is too new"
