"""How the page gets into the package, and what happens where it cannot be built."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def builder(monkeypatch, tmp_path):
    """The builder over a small copy of the sources, which really is built nowhere."""
    monkeypatch.syspath_prepend(str(ROOT / "ui"))
    sys.modules.pop("page", None)
    import page

    (tmp_path / "ui" / "src").mkdir(parents=True)
    (tmp_path / "ui" / "src" / "main.ts").write_text("first")
    (tmp_path / "ui" / "package-lock.json").write_text("{}")
    monkeypatch.setattr(page, "UI", tmp_path / "ui")
    monkeypatch.setattr(page, "STATIC", tmp_path / "static")
    monkeypatch.delenv(page.SWITCH, raising=False)
    yield page
    sys.modules.pop("page", None)


def mark_as_built(builder):
    builder.STATIC.mkdir()
    (builder.STATIC / "index.html").write_text("<html>")
    (builder.STATIC / builder.STAMP).write_text(builder.digest_of_sources())


def test_a_page_of_other_sources_is_not_taken_for_a_new_one(builder):
    mark_as_built(builder)
    assert builder.is_built()
    (builder.UI / "src" / "main.ts").write_text("other")
    assert not builder.is_built()


def test_a_new_source_changes_the_stamp_even_when_it_is_empty(builder):
    before = builder.digest_of_sources()
    (builder.UI / "src" / "empty.ts").write_text("")
    assert builder.digest_of_sources() != before


def test_half_a_page_is_no_page(builder):
    mark_as_built(builder)
    (builder.STATIC / "index.html").unlink()
    assert not builder.is_built()


@pytest.mark.parametrize(
    ("version", "is_enough"),
    [
        ("v18.20.0", False),
        ("v20.18.9", False),
        ("v20.19.0", True),
        ("v21.7.0", False),
        ("v22.11.0", False),
        ("v22.12.0", True),
        ("v24.1.0", True),
        ("", False),
        ("nonsense", False),
    ],
)
def test_only_a_node_that_the_builder_can_use_counts(builder, version, is_enough):
    assert builder.is_new_enough(version) is is_enough


def test_without_node_the_reason_and_the_way_are_reported(builder, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(builder, "NODE_WHEEL", "no_such_module")
    with pytest.raises(builder.NotBuilt, match="make ui"):
        builder.build_page()
    assert builder.main([]) == 1
    assert "the page was not built" in capsys.readouterr().err


def test_the_switch_keeps_it_from_being_built(builder, monkeypatch):
    monkeypatch.setenv(builder.SWITCH, "no")
    with pytest.raises(builder.NotBuilt, match="PALAESTRA_PAGE"):
        builder.build_page()


def test_a_registry_that_is_away_is_a_reason_and_leaves_no_mark(builder, tmp_path):
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho network is away >&2\nexit 7\n")
    npm.chmod(0o755)
    node = builder.Node(tmp_path / "node", (str(npm),))
    with pytest.raises(builder.NotBuilt, match="network is away"):
        builder.install_packages(node)
    assert not (builder.UI / "node_modules" / ".locked").exists()


def test_packages_are_installed_once_without_their_own_programs(builder, tmp_path):
    (builder.UI / "node_modules").mkdir()
    npm = tmp_path / "npm"
    npm.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    npm.chmod(0o755)
    node = builder.Node(tmp_path / "node", (str(npm),))
    builder.install_packages(node)
    builder.install_packages(node)
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == 1
    assert asked[0].startswith("ci --ignore-scripts")


def test_the_lock_file_names_hashes_and_no_host():
    text = (ROOT / "ui" / "package-lock.json").read_text()
    assert '"resolved"' not in text
    assert text.count('"integrity": "sha512-') >= 20


def test_nothing_built_is_in_the_repository():
    listed = subprocess.run(["git", "ls-files", "ui", "src/palaestra/web"], cwd=ROOT, capture_output=True, text=True)
    assert "ui/src/main.ts" in listed.stdout
    assert "node_modules" not in listed.stdout
    assert "web/static" not in listed.stdout
