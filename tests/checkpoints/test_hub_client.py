import sys
from types import ModuleType

import pytest

from palaestra.checkpoints.hub_client import check_repo_id, first_line, hub_client, refusals
from palaestra.core.errors import MissingExtra, UsageError


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
