import os

import pytest

from palaestra.apps.matmul.benchmark import compiler
from palaestra.core.errors import RunFailed, UsageError


def test_code_is_compiled_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = "int answer(void) { return 42; }"
    assert compiler.compile_source(source).answer() == 42
    (kept,) = compiler.kernel_folder().iterdir()
    changed = kept.stat().st_mtime_ns
    assert compiler.compile_source(source).answer() == 42
    assert [file.stat().st_mtime_ns for file in compiler.kernel_folder().iterdir()] == [changed]


def test_code_that_is_wrong_is_refused_with_what_the_compiler_says():
    with pytest.raises(RunFailed, match="nonsense"):
        compiler.compile_source("nonsense")


def test_a_machine_without_a_compiler_is_told_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(UsageError, match="No C compiler") as refused:
        compiler.find_compiler()
    assert "gcc" in refused.value.hint


def test_a_folder_that_others_may_write_to_is_not_trusted(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiler.kernel_folder().chmod(0o777)
    with pytest.raises(UsageError, match="Other users can write"):
        compiler.kernel_folder()


def test_what_cc_names_is_taken(monkeypatch, tmp_path):
    named = tmp_path / "mine"
    named.write_text("#!/bin/sh\n")
    named.chmod(0o755)
    monkeypatch.setenv("CC", f"{named} -with-flags")
    assert compiler.find_compiler() == os.fspath(named)
