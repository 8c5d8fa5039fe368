from __future__ import annotations

import fnmatch
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from palaestra.checkpoints.hub import pack_upload
from palaestra.checkpoints.hub_client import check_repo_id, fetch_from_hub, first_line, hub_client, refusals
from palaestra.checkpoints.targets import find_target
from palaestra.core.errors import MissingExtra, NotFound, UsageError


@pytest.mark.parametrize("repo_id", ["cartpole", "a/b/c", "/x", "x/", "../x", "a/..", "a/b..c", "a b/c", "a/b@c", ""])
def test_what_is_no_owner_and_name_is_refused(repo_id):
    with pytest.raises(UsageError, match="OWNER/NAME"):
        check_repo_id(repo_id)


def test_an_owner_and_a_name_may_have_dots_and_dashes():
    check_repo_id("me-2/cart_pole.v1")


def test_the_missing_extra_is_named_with_the_purpose(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtra, match=r"Fetching it.*palaestra\[hub\]"):
        hub_client("Fetching it")


def test_the_library_is_given_as_it_is(monkeypatch):
    module = ModuleType("huggingface_hub")
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    assert hub_client("x") is module


def test_no_connection_is_among_the_refusals():
    assert issubclass(ConnectionError, refusals())


def test_of_a_long_error_the_first_line_is_told_and_of_an_empty_one_its_kind():
    assert first_line(OSError("no route\nto host")) == "no route"
    assert first_line(OSError()) == "OSError"


@pytest.fixture
def hub(tmp_path, save, monkeypatch):
    """A hub on which `me/cartpole` lies as we send it, with a stranger's program beside it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    save(1, score=-2.5)
    there = tmp_path / "there"
    with pack_upload(tmp_path, "me/cartpole") as parcel:
        shutil.copytree(parcel.folder, there)
    (there / "setup.py").write_text("raise SystemExit")

    def snapshot_download(repo_id, revision, local_dir, allow_patterns):
        if (repo_id, revision) not in {("me/cartpole", None), ("me/cartpole", "v1")}:
            raise OSError("404 not there\nrequest id 7")
        Path(local_dir).mkdir(parents=True, exist_ok=True)
        for file in there.iterdir():
            if any(fnmatch.fnmatch(file.name, pattern) for pattern in allow_patterns):
                shutil.copy(file, local_dir)
        return local_dir

    module = ModuleType("huggingface_hub")
    module.snapshot_download = snapshot_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return tmp_path / "cache"


def test_a_policy_from_the_hub_is_a_target_and_counts_as_a_strangers(hub):
    target = find_target("hub:me/cartpole")
    assert not target.is_own
    assert target.open().checkpoint.score == -2.5


def test_only_checkpoints_come_to_this_machine(hub):
    folder = fetch_from_hub("hub:me/cartpole@v1")
    assert folder.is_relative_to(hub)
    assert sorted(path.name for path in folder.iterdir()) == ["model_0001.safetensors", "model_0001.yaml"]


def test_one_that_is_not_there_is_told_in_one_line(hub):
    with pytest.raises(NotFound, match="hub:me/other could not be fetched: 404 not there") as caught:
        fetch_from_hub("hub:me/other")
    assert "request id" not in str(caught.value)


@pytest.mark.parametrize("target", ["hub:me/x@../../y", "hub:me/x@/etc", "hub:me/x@", "hub:../x", "hub:me"])
def test_a_name_that_would_lead_out_of_the_cache_is_refused(hub, target):
    with pytest.raises(UsageError):
        fetch_from_hub(target)
