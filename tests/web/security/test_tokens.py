import os
import stat

import pytest

from palaestra.core.errors import DamagedFile
from palaestra.web.security.tokens import TokenFile, cookie_value, new_token, read_token

COOKIE = "6797d0f6bbd4fdf7a4ca4e6ef6daddbb738a8c7c8bb47eab3ae07db9f4382937"


def test_a_token_has_256_bits_and_no_two_are_equal():
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert {len(token) for token in tokens} == {43}  # 32 bytes in base 64 without padding


def test_the_file_is_private_and_keeps_its_token(tmp_path):
    path = tmp_path / "home" / "token"
    token = TokenFile(path).ensure()
    assert TokenFile(path).ensure() == token == path.read_text().strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_only_the_token_and_its_cookie_are_accepted(tmp_path):
    file = TokenFile(tmp_path / "token")
    token = file.ensure()
    assert file.is_token(token)
    assert file.is_cookie(cookie_value(token))
    for wrong in ("", token[:-1], token + "x", token.swapcase(), cookie_value(token), "ä", "\ud800"):
        assert not file.is_token(wrong)
    for wrong in ("", token, cookie_value(token)[:-1], cookie_value(token).upper(), "ä", "\ud800"):
        assert not file.is_cookie(wrong)


def test_the_cookie_of_a_token_does_not_change():
    """Worked out with openssl: printf 'palaestra session cookie' | openssl dgst -sha256 -hmac aaa…"""
    assert cookie_value("a" * 43) == COOKIE


def test_missing_directories_are_created(tmp_path):
    path = tmp_path / "far" / "away" / "token"
    assert TokenFile(path).renew() == read_token(path)


def test_reading_closes_its_descriptor(tmp_path):
    path = tmp_path / "token"
    TokenFile(path).ensure()
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    read_token(path)
    path.chmod(0o644)
    with pytest.raises(DamagedFile):
        read_token(path)
    assert set(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


@pytest.mark.parametrize("mode", [0o601, 0o604, 0o610, 0o620, 0o640])
def test_any_permission_for_others_is_refused(tmp_path, mode):
    path = tmp_path / "token"
    TokenFile(path).ensure()
    path.chmod(mode)
    with pytest.raises(DamagedFile, match="can be read by others"):
        read_token(path)


def test_a_renewed_token_is_noticed_after_the_old_one_was_read(tmp_path):
    file = TokenFile(tmp_path / "token")
    old = file.ensure()
    assert file.is_token(old)
    new = TokenFile(tmp_path / "token").renew()
    assert not file.is_token(old)
    assert file.is_token(new)


def test_without_its_file_every_token_is_refused(tmp_path):
    file = TokenFile(tmp_path / "token")
    token = file.ensure()
    assert file.is_token(token)
    (tmp_path / "token").unlink()
    assert not file.is_token(token)
    assert not file.is_token("")
    assert not file.is_cookie("")


def test_a_file_readable_by_others_is_refused(tmp_path):
    file = TokenFile(tmp_path / "token")
    token = file.ensure()
    (tmp_path / "token").chmod(0o644)
    with pytest.raises(DamagedFile, match="can be read by others"):
        file.ensure()
    assert not file.is_token(token)


def test_a_link_is_not_followed(tmp_path):
    TokenFile(tmp_path / "real").ensure()
    (tmp_path / "token").symlink_to(tmp_path / "real")
    with pytest.raises(OSError):
        read_token(tmp_path / "token")


@pytest.mark.parametrize("content", ["", "short", "x" * 44, "a b" * 14 + "c", "ä" * 43])
def test_a_file_without_a_token_is_damaged(tmp_path, content):
    path = tmp_path / "token"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(DamagedFile, match="contains no token"):
        read_token(path)
