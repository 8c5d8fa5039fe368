from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from palaestra.apps.matmul.importing import ImportSettings, import_files, import_one, scheme_paths
from palaestra.apps.matmul.schemes.archive import Archive, Discovery
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.scheme_files import encode_scheme
from palaestra.core.errors import NotFound


def put(path, claim):
    path.write_text(json.dumps(encode_scheme(claim)))
    return path


def imported(archive, *paths, **settings):
    return import_files(list(paths), archive, ImportSettings(**settings), lambda _scheme: None)


@pytest.fixture
def archive(tmp_path):
    return Archive(tmp_path / "runs")


def test_a_scheme_is_archived_with_source_licence_and_rings(strassen, archive, tmp_path):
    (tmp_path / "LICENSE").write_text("\nMIT License\n\nPermission …")
    (found,) = imported(archive, put(tmp_path / "strassen.json", strassen), source="Strassen 1969")
    assert (found.field, found.rank, found.comparison, found.is_new) == ("zt", 7, "matches", True)
    assert found.holds_over == tuple(map(str, Field))
    (entry,) = archive.entries()
    assert isinstance(entry, Discovery)
    facts = entry.provenance
    assert (facts["origin"], facts["source"], facts["license"]) == ("imported", "Strassen 1969", "MIT License")
    assert facts["imported_file"].endswith("strassen.json")
    assert len(facts["imported_sha256"]) == 64


def test_equivalent_schemes_of_two_files_are_one_entry(strassen, archive, tmp_path):
    turned = replace(strassen, u=-strassen.u[::-1], v=strassen.v[::-1], w=-strassen.w[::-1])
    found = imported(archive, put(tmp_path / "a.json", strassen), put(tmp_path / "b.json", turned))
    assert [scheme.is_new for scheme in found] == [True, False]
    assert found[0].id == found[1].id


def test_refused_files_do_not_stop_the_others(strassen, archive, tmp_path):
    folder = tmp_path / "schemes"
    folder.mkdir()
    put(folder / "a.json", replace(strassen, u=-strassen.u))
    (folder / "b.json").write_text("{")
    (folder / "c.exp").write_text("a11*b11*c11*d")
    put(folder / "d.json", strassen)
    (folder / "notes.md").write_text("not a scheme")
    found = imported(archive, folder)
    assert [bool(scheme.refusal) for scheme in found] == [True, True, True, False]
    assert "residual has" in found[0].refusal
    assert len(list(archive.entries())) == 1


def test_links_inside_a_folder_are_not_followed(strassen, tmp_path):
    put(tmp_path / "secret.json", strassen)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(NotFound, match="no scheme files"):
        list(scheme_paths([tmp_path / "folder"]))


def test_every_scheme_of_a_npz_is_imported_and_verified_alone(strassen, strassen_bits, archive, tmp_path):
    stacks = {"2,2,2": strassen, "02,2,2": strassen_bits}
    np.savez(tmp_path / "a.npz", **{key: np.stack([f.T for f in claim.factors]) for key, claim in stacks.items()})
    found = imported(archive, tmp_path / "a.npz", verify_only=True)
    assert [scheme.field for scheme in found] == ["zt", "gf2"]
    assert list(archive.entries()) == []


def test_one_scheme_of_a_file_becomes_an_entry(strassen, archive, tmp_path):
    file = put(tmp_path / "a.json", strassen)
    first, again = import_one(file, "", archive), import_one(file, "", archive)
    assert first.file == again.file
    with pytest.raises(NotFound, match="no scheme 'x'"):
        import_one(file, "x", archive)


def test_gaussian_schemes_are_archived_and_read_back(gaussian, archive, tmp_path):
    (found,) = imported(archive, put(tmp_path / "a.json", gaussian))
    assert (found.field, found.rank) == ("zi", 7)
    (entry,) = archive.entries()
    assert isinstance(entry, Discovery)
    assert [part.tolist() for part in entry.scheme.claim.imaginary] == [p.tolist() for p in gaussian.imaginary]


def test_an_absent_path_is_not_found(archive):
    with pytest.raises(NotFound):
        imported(archive, Path("absent"))
