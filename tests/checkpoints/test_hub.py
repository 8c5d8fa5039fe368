import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from palaestra.checkpoints.durable import verify
from palaestra.checkpoints.hub import model_card, upload_to_hub
from palaestra.contracts.errors import MissingExtra, UsageError


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
    for fact in ("library_name: palaestra", "CartPole-v1", "| score | 475 |", "5,120", "abc123", "model_0010.yaml"):
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
