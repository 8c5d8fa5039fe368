import json

import pytest

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
