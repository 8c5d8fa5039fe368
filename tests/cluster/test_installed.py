import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import pytest

from palaestra.cluster import installed
from palaestra.core.errors import MissingExtra, UsageError


def test_without_ray_the_extra_is_named(monkeypatch):
    def absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(installed, "version", absent)
    with pytest.raises(MissingExtra, match="palaestra\\[cluster\\]"):
        installed.demand_ray()


@pytest.mark.parametrize("old", ["1.13.0", "2.9.3", "2.53.0", "2.53.1rc1"])
def test_a_ray_without_tokens_by_default_is_refused_with_its_version(monkeypatch, old):
    monkeypatch.setattr(installed, "version", lambda name: old)
    with pytest.raises(UsageError, match=old):
        installed.demand_ray()


@pytest.mark.parametrize("new", ["2.54.0", "2.60.0", "3.0.0.dev0", "2.100.1"])
def test_newer_ones_are_taken(monkeypatch, new):
    monkeypatch.setattr(installed, "version", lambda name: new)
    installed.demand_ray()


def test_variables_are_as_before_after_the_block_also_when_it_fails(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    with pytest.raises(ZeroDivisionError), installed.ray_variables({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "x"}):
        assert (os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"]) == ("token", "x")
        raise ZeroDivisionError
    assert os.environ["RAY_AUTH_MODE"] == "disabled"
    assert "RAY_AUTH_TOKEN" not in os.environ


def test_ray_itself_follows_the_variables_in_and_out(monkeypatch):
    from ray._raylet import AuthenticationMode, AuthenticationTokenLoader, get_authentication_mode

    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    for token in ("one", "two"):
        with installed.ray_variables({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}):
            assert get_authentication_mode() == AuthenticationMode.TOKEN
            assert token in str(AuthenticationTokenLoader.instance().get_token_for_http_header())
    assert get_authentication_mode() == AuthenticationMode.DISABLED


def test_help_loads_no_ray():
    code = "import sys; from palaestra.cli.main import main; main(['--help']); assert 'ray' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_what_rays_machines_complain_of_is_logged_and_not_printed(capfd, caplog):
    from ray._private import worker

    before = worker.print_to_stdstream
    with caplog.at_level("INFO"), installed.quiet():
        worker.print_to_stdstream({"lines": ["a worker died"], "pid": "raylet", "is_err": False}, ignore_prefix=False)
    assert "a worker died" in caplog.text
    assert capfd.readouterr().out == ""
    assert worker.print_to_stdstream is before
