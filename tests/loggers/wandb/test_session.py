"""How the mode, the project and the key are chosen; what is logged is seen in test_wandb.py, through the process."""

from __future__ import annotations

import os

import pytest

from palaestra.loggers.wandb.session import choose_mode, choose_project, has_key


@pytest.fixture(autouse=True)
def _no_key_of_whoever_runs_the_tests(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("WANDB_")] + ["NETRC"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_without_a_key_auto_is_offline():
    assert choose_mode("auto") == "offline"


def test_with_a_key_in_the_environment_auto_is_online(monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "not-a-real-key")
    assert choose_mode("auto") == "online"


@pytest.mark.parametrize(("machine", "mode"), [("api.wandb.ai", "online"), ("example.org", "offline")])
def test_a_netrc_counts_only_for_its_own_host(tmp_path, machine, mode):
    netrc = tmp_path / ".netrc"
    netrc.write_text(f"machine {machine}\n  login user\n  password not-a-real-key\n")
    netrc.chmod(0o600)
    assert choose_mode("auto") == mode


def test_a_netrc_for_an_own_server_is_found(tmp_path, monkeypatch):
    netrc = tmp_path / "elsewhere"
    netrc.write_text("machine wandb.example.org login user password not-a-real-key\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    assert not has_key()
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.org")
    assert has_key()


def test_a_broken_netrc_is_no_key(tmp_path):
    (tmp_path / ".netrc").write_text("machine\nmachine machine password")
    assert not has_key()


def test_wandb_mode_of_the_environment_decides_for_auto_only(monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert choose_mode("auto") == "disabled"
    assert choose_mode("online") == "online"
    assert choose_mode("offline") == "offline"


def test_the_project_of_the_environment_stands_in_for_one_that_nobody_set(monkeypatch):
    assert choose_project("palaestra") == "palaestra"
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    assert choose_project("palaestra") == "mine"
    assert choose_project("given") == "given"
