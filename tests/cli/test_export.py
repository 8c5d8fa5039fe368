import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file


def test_weights_are_the_same_in_both_forms(call, runs):
    assert call("checkpoints", "export", "first", "w.safetensors")[0] == 0
    code, out, _ = call("checkpoints", "export", "first:latest", "w.pt", "--json")
    assert code == 0
    assert json.loads(out)["bytes"] == Path("w.pt").stat().st_size
    one, other = load_file("w.safetensors"), torch.load("w.pt", weights_only=True)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_file_that_is_there_is_replaced_only_when_asked(call, runs):
    Path("w.pt").write_text("mine")
    code, _, err = call("checkpoints", "export", "first", "w.pt")
    assert code == 2
    assert "--force" in err
    assert Path("w.pt").read_text() == "mine"
    assert call("checkpoints", "export", "first", "w.pt", "--force")[0] == 0
    assert torch.load("w.pt", weights_only=True)


@pytest.mark.parametrize(("words", "code"), [(["first", "w.zip"], 2), (["nobody", "w.pt"], 3), (["first"], 2)])
def test_what_cannot_be_exported_is_refused(call, runs, words, code):
    assert call("checkpoints", "export", *words)[0] == code
