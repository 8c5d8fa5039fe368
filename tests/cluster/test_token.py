import stat

import pytest

from palaestra.cluster.address import Address
from palaestra.cluster.token import access, default_path, find_token, fresh_access, write_new_token
from palaestra.core.errors import UsageError

HERE = Address("127.0.0.1", 6379)
THERE = Address("10.0.0.5", 6379)


def test_the_variable_comes_before_the_named_file_and_that_before_the_home_directory(tmp_path):
    named = tmp_path / "token"
    named.write_text("named")
    write_new_token(tmp_path)
    assert find_token({"RAY_AUTH_TOKEN": "x", "RAY_AUTH_TOKEN_PATH": str(named)}, tmp_path).source == "RAY_AUTH_TOKEN"
    assert find_token({"RAY_AUTH_TOKEN": " ", "RAY_AUTH_TOKEN_PATH": str(named)}, tmp_path).source == str(named)
    assert find_token({}, tmp_path).source == str(default_path(tmp_path))


def test_a_named_file_that_is_empty_or_not_there_is_refused_by_name(tmp_path):
    (tmp_path / "empty").write_text("\n")
    for name in ("empty", "absent"):
        with pytest.raises(UsageError, match=name):
            find_token({"RAY_AUTH_TOKEN_PATH": str(tmp_path / name)}, tmp_path)


def test_a_strange_machine_without_a_token_is_refused_and_our_own_is_not(tmp_path):
    with pytest.raises(UsageError, match="10.0.0.5:6379.*no token"):
        access(THERE, {}, tmp_path)
    assert access(HERE, {}, tmp_path) == {"RAY_AUTH_MODE": "disabled"}


def test_a_strange_machine_with_authentication_disabled_is_refused_even_with_a_token(tmp_path):
    variables = {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": "x"}
    with pytest.raises(UsageError, match="RAY_AUTH_MODE=disabled"):
        access(THERE, variables, tmp_path)
    assert access(HERE, variables, tmp_path) == {"RAY_AUTH_MODE": "disabled"}


def test_a_token_turns_authentication_on(tmp_path):
    assert access(THERE, {"RAY_AUTH_TOKEN": "x"}, tmp_path) == {"RAY_AUTH_MODE": "token"}
    assert access(HERE, {"RAY_AUTH_TOKEN": "x"}, tmp_path) == {"RAY_AUTH_MODE": "token"}


def test_token_mode_without_a_token_is_refused_also_at_home(tmp_path):
    with pytest.raises(UsageError, match="there is no token"):
        access(HERE, {"RAY_AUTH_MODE": "token"}, tmp_path)


def test_an_unknown_mode_is_refused(tmp_path):
    with pytest.raises(UsageError, match="tokn"):
        access(HERE, {"RAY_AUTH_MODE": "tokn"}, tmp_path)


def test_no_message_ever_holds_the_token(tmp_path):
    for variables in ({"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_MODE": "odd"}):
        with pytest.raises(UsageError) as caught:
            access(THERE, {**variables, "RAY_AUTH_TOKEN": "sesame"}, tmp_path)
        assert "sesame" not in str(caught.value)
    assert "sesame" not in repr(find_token({"RAY_AUTH_TOKEN": "sesame"}, tmp_path))


def test_every_embedded_cluster_has_a_token_of_its_own():
    first, second = fresh_access(), fresh_access()
    assert first["RAY_AUTH_MODE"] == "token"
    assert len(first["RAY_AUTH_TOKEN"]) == 64
    assert first["RAY_AUTH_TOKEN"] != second["RAY_AUTH_TOKEN"]


def test_a_stored_token_is_its_owners_alone_even_over_an_open_file(tmp_path):
    path = default_path(tmp_path)
    path.parent.mkdir()
    path.write_text("old")
    path.chmod(0o644)
    write_new_token(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(path.read_text()) == 64
