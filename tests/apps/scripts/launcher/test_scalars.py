import numpy as np
import pytest
import torch
from torch.utils import tensorboard

from palaestra.apps.scripts.launcher import scalars


@pytest.mark.parametrize(
    "value", [2, 2.0, np.float32(2), np.array([2.0]), torch.tensor(2.0), torch.tensor([2.0], requires_grad=True)]
)
def test_a_number_is_a_number_in_whatever_it_is_wrapped(value):
    assert scalars.as_float(value) == 2.0


@pytest.mark.parametrize("value", ["text", None, np.array([])])
def test_what_is_no_number_is_left_to_the_script(value):
    assert scalars.as_float(value) is None


def test_what_the_script_logs_reaches_both(monkeypatch):
    written, messages = [], []

    class Writer:
        def __init__(self, flush_secs=120):
            self.flush_secs = flush_secs

        def add_scalar(self, tag, value, global_step=None):
            written.append((tag, value, global_step))

    monkeypatch.setattr(tensorboard, "SummaryWriter", Writer)
    scalars.install(lambda *message: messages.append(message))
    writer = tensorboard.SummaryWriter()
    writer.add_scalar("losses/a", 0.5, 10)
    assert written == [("losses/a", 0.5, 10)]
    assert messages[0][:4] == ("scalar", "losses/a", 0.5, 10)
    assert writer.flush_secs == scalars.FLUSH_SECONDS
