from __future__ import annotations

import json
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import load_file

from palaestra.checkpoints.replay_segments import Rows
from palaestra.checkpoints.store import CheckpointStore
from palaestra.config.yaml import parse_yaml
from palaestra.runs.store import RunStore


@pytest.fixture
def weights(runs):
    return next(RunStore().resolve("first").checkpoints.glob("*.safetensors"))


def test_checkpoints_are_listed_with_step_and_score(call, runs):
    code, out, _ = call("checkpoints", "list", "first", "--json")
    (only,) = json.loads(out)["checkpoints"]
    assert code == 0
    assert only["agent_step"] == 512
    assert isinstance(only["score"], float)
    assert only["path"].split("/")[-1] in call("checkpoints", "list", "first")[1]


def test_a_checkpoint_says_everything_of_itself(call, runs):
    shown = json.loads(call("checkpoints", "show", "first:latest", "--json")[1])
    assert (shown["run_name"], shown["env"]["id"]) == ("first", "CartPole-v1")
    assert parse_yaml(call("checkpoints", "show", "first")[1])["run"] == shown["run"]


def test_whole_checkpoints_verify(call, runs):
    assert [one["ok"] for one in json.loads(call("checkpoints", "verify", "first", "--json")[1])] == [True]


def test_a_flipped_bit_is_found_and_named(call, weights):
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    code, out, err = call("checkpoints", "verify", "first", "--json")
    assert code == 1
    assert [one["ok"] for one in json.loads(out)] == [False]
    assert "1 of 1 checkpoints are damaged" in err
    assert call("checkpoints", "list", "first")[0] == 0  # the listing compares sizes, not bytes


@pytest.mark.fault("C20")
def test_damaged_transitions_of_a_replay_buffer_are_found_and_named(call, runs):
    store = CheckpointStore(RunStore().resolve("first").checkpoints)
    (only,) = store.list_all_checkpoints()
    weights, _ = store.load_weights()
    rows = Rows(0, 0, 0, 100, [(10, [b"transitions"])])
    store.save({name: value.numpy() for name, value in weights.items()}, replace(only, epoch=99), {}, [rows])
    assert call("checkpoints", "verify", "first")[0] == 0
    (segment,) = (store.directory / "replay").iterdir()
    segment.write_bytes(b"transitionz")
    code, out, _ = call("checkpoints", "verify", "first", "--json")
    assert code == 1
    assert [segment.name in one["reason"] for one in json.loads(out)] == [False, True]


def test_a_truncated_file_is_named_in_the_listing(call, weights):
    weights.write_bytes(weights.read_bytes()[:-10])
    code, _, err = call("checkpoints", "list", "first")
    assert code == 0
    assert "damaged" in err


@pytest.mark.parametrize("action", ["list", "show", "verify"])
def test_an_unknown_run_is_not_found(call, runs, action):
    code, out, err = call("checkpoints", action, "frist")
    assert (code, out) == (3, "")
    assert "Did you mean 'first'?" in err


def test_weights_are_the_same_in_both_forms(call, runs):
    assert call("checkpoints", "export", "first", "w.safetensors")[0] == 0
    code, out, _ = call("checkpoints", "export", "first:latest", "w.pt", "--json")
    assert code == 0
    assert json.loads(out)["bytes"] == Path("w.pt").stat().st_size
    one, other = load_file("w.safetensors"), torch.load("w.pt", weights_only=True)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_file_that_is_there_is_replaced_only_when_requested(call, runs):
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


def test_a_dry_run_shows_the_card_and_sends_nothing(call, runs, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    code, out, err = call("checkpoints", "upload", "first:best", "me/cartpole", "--dry-run")
    assert code == 0
    assert "# first: a policy for CartPole-v1" in out
    assert "(mean return of 1 episodes)" in out
    assert "Nothing was sent to me/cartpole" in err
    found = json.loads(call("checkpoints", "upload", "first", "me/cartpole", "--dry-run", "--json")[1])
    assert found["sent"] is False
    assert "README.md" in found["files"]


@pytest.mark.parametrize(("flags", "private"), [([], True), (["--public"], False)])
def test_what_is_sent_is_private_unless_reported_otherwise(call, runs, monkeypatch, flags, private):
    requested = {}

    class FakeApi:
        def __init__(self, token):
            pass

        def create_repo(self, repo_id, private, exist_ok):
            requested["private"] = private
            return f"hub://{repo_id}"

        def upload_folder(self, **_arguments):
            requested["sent"] = True

    module = ModuleType("huggingface_hub")
    module.HfApi = FakeApi
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    code, out, _ = call("checkpoints", "upload", "first", "me/cartpole", *flags)
    assert (code, out.strip()) == (0, "hub://me/cartpole")
    assert requested == {"private": private, "sent": True}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [(["frist", "me/x"], 3, "'first'"), (["first", "x"], 2, "OWNER/NAME"), (["first"], 2, "repo_id")],
)
def test_what_cannot_be_sent_is_refused(call, runs, words, code, said):
    got, out, err = call("checkpoints", "upload", *words, "--dry-run")
    assert (got, out) == (code, "")
    assert said in err or "OWNER/NAME" in err


def test_without_the_extra_it_is_named(call, runs, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    code, out, err = call("checkpoints", "upload", "first", "me/x")
    assert (code, out) == (4, "")
    assert "palaestra[hub]" in err


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
