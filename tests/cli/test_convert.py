import json
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file


class Payload:
    def __reduce__(self):
        return (Path.touch, (Path("canary"),))


@pytest.mark.slow
def test_a_state_dict_becomes_safetensors(call, workplace):
    torch.save({"layer.weight": torch.arange(6.0).reshape(2, 3)}, "plain.pt")
    code, out, _ = call("convert", "plain.pt", "--json")
    assert code == 0
    assert json.loads(out)["tensors"]["layer.weight"]["shape"] == [2, 3]
    assert torch.equal(load_file("plain.safetensors")["layer.weight"], torch.arange(6.0).reshape(2, 3))


def test_a_pickle_is_refused_unopened_with_the_way_to_convert_it(call, workplace):
    Path("evil.pt").write_bytes(pickle.dumps(Payload()))
    code, out, err = call("convert", "evil.pt")
    assert (code, out) == (1, "")
    assert "weights_only=False" in err
    assert not Path("canary").exists()
    assert not Path("evil.safetensors").exists()


def test_a_file_that_is_not_there_is_a_clear_line(call, workplace):
    code, _, err = call("checkpoints", "convert", "nothing.pt")
    assert code in {1, 2, 3}
    assert err.startswith("palaestra: ")
    assert "nothing.pt" in err
