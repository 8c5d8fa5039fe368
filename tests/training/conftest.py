import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """As training itself by default: with networks this small, threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
