from __future__ import annotations

import os
import stat
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from palaestra.cluster import ray_runtime
from palaestra.core.errors import MissingExtra, UsageError


def test_without_ray_the_extra_is_named(monkeypatch):
    def absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(ray_runtime, "version", absent)
    with pytest.raises(MissingExtra, match="palaestra\\[cluster\\]"):
        ray_runtime.require_ray()


@pytest.mark.parametrize("old", ["1.13.0", "2.9.3", "2.53.0", "2.53.1rc1"])
def test_a_ray_without_tokens_by_default_is_refused_with_its_version(monkeypatch, old):
    monkeypatch.setattr(ray_runtime, "version", lambda name: old)
    with pytest.raises(UsageError, match=old):
        ray_runtime.require_ray()


@pytest.mark.parametrize("new", ["2.54.0", "2.60.0", "3.0.0.dev0", "2.100.1"])
def test_newer_ones_are_taken(monkeypatch, new):
    monkeypatch.setattr(ray_runtime, "version", lambda name: new)
    ray_runtime.require_ray()


def test_variables_are_as_before_after_the_block_also_when_it_fails(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    with pytest.raises(ZeroDivisionError), ray_runtime.ray_variables({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "x"}):
        assert (os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"]) == ("token", "x")
        raise ZeroDivisionError
    assert os.environ["RAY_AUTH_MODE"] == "disabled"
    assert "RAY_AUTH_TOKEN" not in os.environ


def test_ray_itself_follows_the_variables_in_and_out(monkeypatch):
    from ray._raylet import AuthenticationMode, AuthenticationTokenLoader, get_authentication_mode

    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    for token in ("one", "two"):
        with ray_runtime.ray_variables({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}):
            assert get_authentication_mode() == AuthenticationMode.TOKEN
            assert token in str(AuthenticationTokenLoader.instance().get_token_for_http_header())
    assert get_authentication_mode() == AuthenticationMode.DISABLED


def test_help_loads_no_ray():
    code = "import sys; from palaestra.cli.main import main; main(['--help']); assert 'ray' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_what_rays_machines_complain_of_is_logged_and_not_printed(capfd, caplog):
    from ray._private import worker

    before = worker.print_to_stdstream
    with caplog.at_level("INFO"), ray_runtime.quiet():
        worker.print_to_stdstream({"lines": ["a worker died"], "pid": "raylet", "is_err": False}, ignore_prefix=False)
    assert "a worker died" in caplog.text
    assert capfd.readouterr().out == ""
    assert worker.print_to_stdstream is before


def test_a_long_temporary_folder_is_not_too_long_for_sockets(monkeypatch, tmp_path):
    deep = tmp_path / ("x" * 60)
    deep.mkdir()
    monkeypatch.setattr(ray_runtime.tempfile, "gettempdir", lambda: str(deep))
    with ray_runtime.private_directory() as folder:
        assert len(str(folder)) <= ray_runtime.MAX_PATH_LENGTH
        outer = folder.parent
        assert stat.S_IMODE(outer.stat().st_mode) == 0o700
    assert not outer.exists()


def left_by_a_killed_process(base):
    code = f"""
import os, signal, tempfile
from palaestra.cluster.ray_runtime import private_directory
tempfile.tempdir = {str(base)!r}
with private_directory() as folder:
    print(folder.parent, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert killed.returncode == -9, killed.stderr
    return Path(killed.stdout.strip())


def test_what_a_killed_session_left_is_swept_and_what_lives_or_is_a_third_parties_is_stored(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_runtime, "MAX_PATH_LENGTH", 1000)
    base = tmp_path
    monkeypatch.setattr(ray_runtime.tempfile, "gettempdir", lambda: str(base))
    unmarked = base / f"{ray_runtime.PREFIX}unmarked"
    unmarked.mkdir()
    dead = base / f"{ray_runtime.PREFIX}dead"
    dead.mkdir()
    (dead / ray_runtime.OWNER).write_text(f"{os.getpid()} 1.0")  # our pid, at another time somebody else's
    with ray_runtime.private_directory() as living:
        assert not dead.exists()
        with ray_runtime.private_directory():
            assert living.exists()
    assert unmarked.exists()


def test_a_killed_process_leaves_a_folder_that_the_next_session_knows_for_dead(tmp_path):
    left = left_by_a_killed_process("/tmp")
    assert left.exists()
    ray_runtime.sweep(Path("/tmp"))
    assert not left.exists()
