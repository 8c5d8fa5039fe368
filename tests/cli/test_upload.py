import json
import sys
from types import ModuleType

import pytest


def test_a_dry_run_shows_the_card_and_sends_nothing(call, runs, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    code, out, err = call("checkpoints", "upload", "first:best", "me/cartpole", "--dry-run")
    assert code == 0
    assert "# first: a policy for CartPole-v1" in out
    assert "(mean return of 1 episodes)" in out
    assert "nothing was sent to me/cartpole" in err
    found = json.loads(call("checkpoints", "upload", "first", "me/cartpole", "--dry-run", "--json")[1])
    assert found["sent"] is False
    assert "README.md" in found["files"]


@pytest.mark.parametrize(("flags", "private"), [([], True), (["--public"], False)])
def test_what_is_sent_is_private_unless_said_otherwise(call, runs, monkeypatch, flags, private):
    asked = {}

    class FakeApi:
        def __init__(self, token):
            pass

        def create_repo(self, repo_id, private, exist_ok):
            asked["private"] = private
            return f"hub://{repo_id}"

        def upload_folder(self, **_words):
            asked["sent"] = True

    module = ModuleType("huggingface_hub")
    module.HfApi = FakeApi
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    code, out, _ = call("checkpoints", "upload", "first", "me/cartpole", *flags)
    assert (code, out.strip()) == (0, "hub://me/cartpole")
    assert asked == {"private": private, "sent": True}


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
