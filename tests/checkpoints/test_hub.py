import importlib
import inspect
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from palaestra.checkpoints.durable import verify
from palaestra.checkpoints.hub import model_card, pack_upload, upload_to_hub
from palaestra.checkpoints.loading import load_policy
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.config.policy import PolicyConfig
from palaestra.config.yaml import parse_yaml
from palaestra.core.errors import MissingExtra, RunFailed, UsageError
from palaestra.core.spaces import BoxSpec, DiscreteSpec, EnvInterface, encode_interface
from palaestra.policies.build import build_policy


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub that keeps what it is sent, and what it was asked."""
    asked = {}

    class FakeApi:
        def __init__(self, token=None):
            asked["token"] = token

        def create_repo(self, repo_id, private, exist_ok):
            asked.update(repo_id=repo_id, private=private)
            return f"hub://{repo_id}"

        def upload_folder(self, repo_id, folder_path, commit_message):
            shutil.copytree(folder_path, tmp_path / "sent")
            asked["message"] = commit_message

    module = ModuleType("huggingface_hub")
    module.HfApi = FakeApi
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return asked


def test_weights_sidecar_and_card_are_sent_and_verify_without_the_trainer_state(tmp_path, save, hub):
    save(1, score=-2.5)
    assert upload_to_hub(tmp_path, "me/cartpole") == "hub://me/cartpole"
    assert hub == {"token": None, "repo_id": "me/cartpole", "private": True, "message": "Epoch 1 of first"}
    sent = tmp_path / "sent"
    assert sorted(path.name for path in sent.iterdir()) == ["README.md", "model_0001.safetensors", "model_0001.yaml"]
    checkpoint, parts = verify(sent, 1)
    assert checkpoint.score == -2.5
    assert parts["model_0001.safetensors"] == Path(tmp_path / "checkpoints/model_0001.safetensors").read_bytes()


def test_the_card_says_what_it_is(describe):
    card = model_card(describe(10, score=475.0), "me/cartpole")
    for fact in ("library_name: palaestra", "CartPole-v1", "| score | 475", "5,120", "abc123", "model_0010.yaml"):
        assert fact in card
    assert "not judged" in model_card(describe(10), "me/x")


def test_a_name_cannot_write_markup_into_the_card(describe):
    card = model_card(describe(1, run_name="x</td>\n# Free | <script>"), "me/x")
    assert "<script>" not in card
    assert "\n# Free" not in card


@pytest.mark.parametrize("repo_id", ["cartpole", "a/b/c", "/x", "x/"])
def test_a_repository_needs_an_owner_and_a_name(tmp_path, hub, repo_id):
    with pytest.raises(UsageError, match="OWNER/NAME"):
        upload_to_hub(tmp_path, repo_id)


def test_without_the_extra_it_is_named(tmp_path, save, monkeypatch):
    save(1)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtra, match=r"palaestra\[hub\]"):
        upload_to_hub(tmp_path, "me/x")


def test_a_dry_run_packs_what_would_be_sent_without_the_extra_and_leaves_nothing(tmp_path, save, monkeypatch):
    save(1, score=-2.5)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pack_upload(tmp_path, "me/cartpole") as parcel:
        assert {path.name: path.stat().st_size for path in parcel.folder.iterdir()} == parcel.files
        assert set(parcel.files) == {"README.md", "model_0001.safetensors", "model_0001.yaml"}
        assert (parcel.folder / "README.md").read_text() == parcel.card
    assert not parcel.folder.exists()


def test_the_card_has_the_scores_of_the_sidecar(describe):
    metrics = {"score_episodes": 40.0, "score_easy": 9.5, "score_hard": 0.5, "losses/value_loss": 3.0}
    card = model_card(describe(10, score=5.0, metrics=metrics), "me/x")
    for row in ("| score | 5 (mean return of 40 episodes) |", "| score in easy | 9.5 |", "| score in hard | 0.5 |"):
        assert row in card
    assert "value_loss" not in card


@pytest.mark.parametrize("name", ["first", 'a"b', "x: y", "- z", "é\n"])
def test_the_hub_can_read_the_score_whatever_the_run_is_called(describe, name):
    front = parse_yaml(model_card(describe(10, score=1.5e-7, run_name=name), "me/x").split("---\n")[1], "the card")
    (model,) = front["model-index"]
    (result,) = model["results"]
    assert model["name"] == name
    assert result["dataset"]["name"] == "CartPole-v1"
    assert float(result["metrics"][0]["value"]) == 1.5e-7
    assert "model-index" not in parse_yaml(model_card(describe(10), "me/x").split("---\n")[1], "the card")


def test_what_the_card_says_of_loading_is_so(tmp_path, describe):
    interface = EnvInterface(BoxSpec((4,)), DiscreteSpec(2))
    config = PolicyConfig(graph="mlp", settings={"hidden": [8]})
    described = describe(3, policy=config.model_dump(), interface=encode_interface(interface))
    CheckpointManager(tmp_path / "run").save(build_policy(config, interface), described)
    with pack_upload(tmp_path / "run", "me/x") as parcel:
        (line,) = [line for line in parcel.card.splitlines() if "load_policy(" in line]
        policy = load_policy(parcel.folder / line.split('"')[1])
    assert policy.act([0.1, 0.2, 0.3, 0.4]) in (0, 1)


def test_a_hub_that_says_no_is_one_line(tmp_path, save, hub, monkeypatch):
    save(1)

    def refuse(self, *words, **more):
        raise OSError("401: who are you?\nmany more lines")

    monkeypatch.setattr(sys.modules["huggingface_hub"].HfApi, "create_repo", refuse)
    with pytest.raises(RunFailed, match=r"could not be sent to me/x: 401: who are you\?") as caught:
        upload_to_hub(tmp_path, "me/x")
    assert "many more lines" not in str(caught.value)


def test_a_hub_that_cannot_be_reached_is_one_line(tmp_path, save, monkeypatch):
    real = pytest.importorskip("huggingface_hub")
    save(1)
    library = importlib.import_module("huggingface_hub.errors").HfHubHTTPError.__bases__[
        0
    ]  # the error from which all of its HTTP library descend
    assert not issubclass(library, OSError)

    def fail(self, *words, **more):
        raise library("no route to host")

    monkeypatch.setattr(real.HfApi, "create_repo", fail)
    with pytest.raises(RunFailed, match="no route to host"):
        upload_to_hub(tmp_path, "me/x")


def test_the_hubs_own_functions_take_what_we_give_them():
    """Without calling anybody: the fake above is only as good as the signatures it stands for."""
    real = pytest.importorskip("huggingface_hub")
    inspect.signature(real.HfApi.create_repo).bind(None, "me/x", private=True, exist_ok=True)
    inspect.signature(real.HfApi.upload_folder).bind(None, repo_id="me/x", folder_path="x", commit_message="y")
    errors = importlib.import_module("huggingface_hub.errors")
    assert issubclass(errors.HfHubHTTPError, OSError)
    assert issubclass(errors.LocalTokenNotFoundError, OSError)
