import pytest

from palaestra.apps.scripts.checkouts import (
    CHECKOUTS,
    MAX_CHECKOUTS,
    known_checkouts,
    remember_checkout,
    remember_checkout_of,
)


def made(path):
    path.mkdir(parents=True)
    return path


def test_the_newest_checkout_comes_first_and_none_is_kept_twice(tmp_path):
    one, other, runs = made(tmp_path / "one"), made(tmp_path / "other"), tmp_path / "runs"
    for checkout in (one, other, one):
        remember_checkout(runs, checkout)
    assert known_checkouts(runs) == [one, other]


def test_a_checkout_that_is_gone_is_left_out(tmp_path):
    gone = made(tmp_path / "gone")
    remember_checkout(tmp_path, gone)
    gone.rmdir()
    assert known_checkouts(tmp_path) == []


def test_only_the_newest_are_kept(tmp_path):
    for number in range(MAX_CHECKOUTS + 2):
        remember_checkout(tmp_path / "runs", made(tmp_path / f"checkout{number}"))
    assert len(known_checkouts(tmp_path / "runs")) == MAX_CHECKOUTS
    assert known_checkouts(tmp_path / "runs")[0].name == f"checkout{MAX_CHECKOUTS + 1}"


@pytest.mark.parametrize("content", ["{", "{}", "[5, null]", '["/surely/absent"]'])
def test_a_damaged_memory_is_an_empty_one(tmp_path, content):
    (tmp_path / CHECKOUTS).write_text(content)
    assert known_checkouts(tmp_path) == []
    remember_checkout(tmp_path, made(tmp_path / "one"))
    assert known_checkouts(tmp_path) == [tmp_path / "one"]


def test_a_script_s_repository_is_remembered_and_a_folder_that_is_none_is_not(tmp_path):
    script = made(tmp_path / "repository" / "cleanrl") / "ppo.py"
    remember_checkout_of(tmp_path, script)
    assert known_checkouts(tmp_path) == []
    (tmp_path / "repository" / ".git").mkdir()
    remember_checkout_of(tmp_path, script)
    assert known_checkouts(tmp_path) == [tmp_path / "repository"]
