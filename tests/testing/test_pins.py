"""What would be installed is what was looked at: exact versions for everything, none below a repaired weakness.

There is no network here to ask for advisories; REPAIRED_IN is what the authors knew when they wrote it, no more.
"""

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LINES = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
PINS = {canonicalize_name(name): Version(version) for name, _, version in (line.partition("==") for line in LINES)}

# Extras that `make lock` does not install: who asks for them gets what is newest.
UNPINNED = {"ale-py", "minigrid"}

# The first version without a weakness that reaches what we do with the package, and its name.
REPAIRED_IN = {
    "certifi": ("2024.7.4", "CVE-2024-39689"),
    "h11": ("0.16.0", "CVE-2025-43859: two opinions about the end of a chunk"),
    "idna": ("3.7", "CVE-2024-3651"),
    "jinja2": ("3.1.6", "CVE-2025-27516"),
    "onnx": ("1.17.0", "CVE-2024-5187: an archive that writes elsewhere"),
    "pillow": ("11.3.0", "CVE-2025-48379"),
    "protobuf": ("6.31.1", "CVE-2025-4565"),
    "pyyaml": ("5.4", "CVE-2020-14343"),
    "ray": ("2.54.0", "no token before"),
    "requests": ("2.32.4", "CVE-2024-47081"),
    "starlette": ("0.49.1", "CVE-2025-62727: ranges that take for ever"),
    "torch": ("2.6.0", "CVE-2025-32434: weights_only that ran code"),
    "tqdm": ("4.66.3", "CVE-2024-34062"),
    "urllib3": ("2.6.0", "CVE-2025-66418"),
    "wandb": ("0.29.0", "files that were written elsewhere"),
    "werkzeug": ("3.1.4", "CVE-2025-66221"),
}


def asked_for() -> dict[str, list[Requirement]]:
    """By extra; the empty one is what everybody gets, `build` what makes the package."""
    project = PROJECT["project"]
    texts = {"": project["dependencies"], "build": PROJECT["build-system"]["requires"]}
    texts |= project["optional-dependencies"]
    return {
        extra: [one for one in map(Requirement, lines) if one.name != project["name"]] for extra, lines in texts.items()
    }


def reached(extra: str) -> set[str]:
    """Everything that is installed because Palaestra or its extra asks for it, however far down."""
    observed: set[tuple[str, str]] = set()
    waiting = [("palaestra", "")] + ([("palaestra", extra)] if extra else [])
    while waiting:
        name, of = waiting.pop()
        if (name, of) in observed:
            continue
        observed.add((name, of))
        try:
            lines = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # wanted on other systems only
        for one in map(Requirement, lines):
            if one.marker is None or one.marker.evaluate({"extra": of}):
                below = canonicalize_name(one.name)
                waiting += [(below, ""), *((below, more) for more in one.extras)]
    return {name for name, _ in observed} - {"palaestra"}


def test_every_pin_is_one_exact_version_and_each_name_stands_once():
    odd = [line for line in LINES if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)]
    assert odd == []
    assert len(PINS) == len(LINES) > 100


def test_no_pin_has_a_hash_and_the_page_about_security_says_so():
    """With one hash pip wants one for everything, also for the checkout itself, which cannot have any."""
    assert not any("--hash" in line for line in LINES)
    assert "no hashes" in (ROOT / "SECURITY.md").read_text()


@pytest.mark.parametrize("extra", asked_for())
def test_what_an_extra_asks_for_is_pinned_within_its_own_bounds(extra):
    for wanted in asked_for()[extra]:
        name = canonicalize_name(wanted.name)
        if name in UNPINNED:
            continue
        assert name in PINS, f"{wanted} of the extra '{extra}' is not in constraints.txt"
        assert wanted.specifier.contains(PINS[name], prereleases=True), f"{wanted}, but pinned is {PINS[name]}"


def test_what_is_reported_to_be_unpinned_is():
    names = {canonicalize_name(one.name) for those in asked_for().values() for one in those}
    assert names - set(PINS) == UNPINNED


def test_nothing_is_installed_that_nobody_inspected():
    """Also what others pull in is pinned, and it is that version which is there."""
    there = {
        canonicalize_name(one.metadata["Name"]): Version(one.version) for one in importlib.metadata.distributions()
    }
    wanted = reached("dev") & set(there)
    assert len(wanted) > 100, "the walk along requirements went nowhere"
    assert sorted(wanted - set(PINS) - {"setuptools", "pip"}) == []
    local = {name: Version(there[name].public) for name in wanted & set(PINS)}  # torch says +cpu
    assert {name: version for name, version in local.items() if version != PINS[name]} == {}


@pytest.mark.parametrize("name", REPAIRED_IN)
def test_no_pin_is_older_than_a_repaired_weakness_that_is_known_here(name):
    version, weakness = REPAIRED_IN[name]
    assert PINS[name] >= Version(version), weakness
