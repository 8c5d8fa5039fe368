import pytest
import torch

from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError
from palaestra.policies.device import CPU, choose_device, memory_to_device, observation_to_device
from palaestra.training.state import new_training_state

SMALL = TrainConfig(ppo={"env_count": 1, "horizon": 4, "minibatch_size": 4})


@pytest.fixture
def cuda_devices(monkeypatch):
    def pretend(count: int) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)

    return pretend


def test_auto_takes_cuda_where_there_is_one(cuda_devices):
    cuda_devices(0)
    assert choose_device("auto") == CPU
    cuda_devices(2)
    assert choose_device("auto", local_rank=1) == torch.device("cuda", 1)
    assert choose_device("cpu") == CPU


def test_cuda_without_a_device_is_refused_with_what_to_try(cuda_devices):
    cuda_devices(0)
    with pytest.raises(UsageError, match=r"device=cuda, but torch .* sees no CUDA device.*device=cpu"):
        choose_device("cuda")
    with pytest.raises(UsageError, match="device=cuda"):
        new_training_state(SMALL.model_copy(update={"device": "cuda"}))


def test_more_processes_than_devices_are_refused_with_both_numbers(cuda_devices):
    cuda_devices(2)
    with pytest.raises(UsageError, match="local rank 2, but there are only 2 CUDA devices"):
        choose_device("cuda", local_rank=2)


def test_on_the_cpu_nothing_is_copied():
    tensor = torch.zeros(3)
    assert observation_to_device(tensor, CPU) is tensor
    assert observation_to_device({"left": tensor}, CPU)["left"] is tensor
    assert memory_to_device({"cell": tensor}, CPU)["cell"] is tensor


def test_everything_of_a_state_is_where_it_was_asked_to_be():
    """The meta device stands in for another one: it has no numbers, but a place."""
    assert observation_to_device({"left": torch.zeros(3)}, torch.device("meta"))["left"].device.type == "meta"
    state = new_training_state(SMALL.model_copy(update={"device": "cpu"}))
    places = {
        state.algorithm.buffer.device,
        state.algorithm.tensors.optimizer.flat.device,
        state.algorithm.tensors.reward_sums.device,
        state.algorithm.tensors.sampler.device,
    }
    assert places == {CPU}
