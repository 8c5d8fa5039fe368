import os

import pytest

from palaestra.apps.matmul.benchmark import compiler
from palaestra.core.errors import RunFailed, UsageError


def test_compiled_code_is_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = "int answer(void) { return 42; }"
    assert compiler.compile_source(source).answer() == 42
    (kept,) = compiler.kernel_folder().iterdir()
    changed = kept.stat().st_mtime_ns
    assert compiler.compile_source(source).answer() == 42
    assert [file.stat().st_mtime_ns for file in compiler.kernel_folder().iterdir()] == [changed]


def test_a_compile_error_is_reported():
    with pytest.raises(RunFailed, match="nonsense"):
        compiler.compile_source("nonsense")


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(UsageError, match="No C compiler") as refused:
        compiler.find_compiler()
    assert "gcc" in refused.value.hint


def test_a_cache_writable_by_others_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiler.kernel_folder().chmod(0o777)
    with pytest.raises(UsageError, match="Other users can write"):
        compiler.kernel_folder()


def test_the_compiler_of_cc_is_used(monkeypatch, tmp_path):
    named = tmp_path / "mine"
    named.write_text("#!/bin/sh\n")
    named.chmod(0o755)
    monkeypatch.setenv("CC", f"{named} -with-flags")
    assert compiler.find_compiler() == os.fspath(named)
