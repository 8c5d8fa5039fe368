import os

from palaestra.core.errors import NotFound, RunFailed
from palaestra.runner.account import PIPE, Account, account_of, give, read


def test_an_account_goes_through_a_pipe(monkeypatch):
    pipe, told = os.pipe()
    monkeypatch.setenv(PIPE, str(told))
    account = Account(3, 1.5, error="gone", hint="look", is_consequence=True)
    give(account)
    os.close(told)
    with os.fdopen(pipe, "rb") as stream:
        assert read(stream.read()) == account


def test_our_errors_keep_their_code_and_hint_and_others_their_name():
    ours = account_of(NotFound("No run.", "List them."), is_consequence=False)
    assert (ours.exit_code, ours.error, ours.hint) == (3, "No run.", "List them.")
    other = account_of(ZeroDivisionError("by zero"), is_consequence=False)
    assert (other.exit_code, other.error) == (1, "ZeroDivisionError: by zero")


def test_the_users_traceback_goes_along_and_no_text_fills_the_pipe():
    error = RunFailed("x" * 100_000)
    error.user_traceback = "Traceback of mine"
    account = account_of(error, is_consequence=False)
    assert account.user_traceback == "Traceback of mine"
    assert len(account.error) < 10_000


def test_half_an_account_is_none():
    assert read(b"") is None
    assert read(b'{"exit_code": 3, "at"') is None
    assert read(b'{"surprise": 3}') is None
