from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from palaestra.apps.matmul.catalogue import CATALOGUE, DiscoveryCatalogue, list_discoveries
from palaestra.apps.matmul.schemes.archive import Archive, Provenance
from palaestra.apps.matmul.schemes.canonical_form import canonical_hash
from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.core.errors import NotFound, UsageError
from palaestra.core.plugins import load

ORIGIN = Provenance("01RUN", "flip", 3, 1000, 1.5, 1.4, 9.0, machine={"cpu": "x"})


def test_an_entry_has_formulas_code_and_provenance(strassen, tmp_path):
    entry, _ = Archive(tmp_path).add(verify(strassen), ORIGIN)
    catalogue = DiscoveryCatalogue()
    (listed,) = catalogue.listing(tmp_path, "2x2x2")["discoveries"]
    assert (listed["id"], listed["rank"], listed["known"], listed["comparison"]) == (entry.file.stem, 7, 7, "matches")
    assert (listed["run"], listed["seed"], listed["step"], listed["found_at"]) == ("01RUN", 3, 1000, 9.0)
    assert listed["origin"] == "discovered"
    full = catalogue.entry(tmp_path, entry.file.stem)
    assert full["formulas"][0] == "m1 = (a11 + a22) * (b11 + b22)"
    assert "def multiply_2x2x2" in full["code"]
    assert full["machine"] == {"cpu": "x"}
    assert full["benchmarks"] == []


def test_results_with_demonstrations_are_reproduced(strassen, tmp_path):
    shown = Provenance("01RUN", "agent", 3, 1, 1.0, 1.0, 1.0, demonstrations=("abc",), origin="reproduced")
    Archive(tmp_path).add(verify(strassen), shown)
    assert DiscoveryCatalogue().listing(tmp_path, "")["discoveries"][0]["origin"] == "reproduced"


def test_a_file_is_verified_again_only_if_it_changed(strassen, tmp_path, monkeypatch):
    entry, _ = Archive(tmp_path).add(verify(strassen), ORIGIN)
    catalogue = DiscoveryCatalogue()
    first = catalogue.entries(tmp_path)
    assert catalogue.entries(tmp_path)[0] is first[0]
    entry.file.write_text(entry.file.read_text().replace('"01RUN"', '"02RUN2"'))
    assert catalogue.listing(tmp_path, "")["discoveries"][0]["run"] == "02RUN2"
    entry.file.write_text("{")
    listed = catalogue.listing(tmp_path, "")
    assert listed["discoveries"] == []
    assert entry.file.name in listed["damaged"][0]
    entry.file.unlink()
    assert catalogue.listing(tmp_path, "")["damaged"] == []


def test_unknown_formats_and_names_are_refused(tmp_path):
    with pytest.raises(UsageError):
        CATALOGUE.listing(tmp_path, "3x3")
    with pytest.raises(NotFound):
        CATALOGUE.entry(tmp_path, "nothing")


def test_the_catalogue_plugin_does_not_load_torch():
    assert load("catalogues", "discoveries") is CATALOGUE
    script = (
        "import sys; import palaestra.apps.matmul.catalogue; print('torch' in sys.modules, 'gymnasium' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"]


LISTED_ORIGIN = Provenance("01RUN", "flip", 3, 1000, 1.5, 1.4, 0.0)


def test_each_discovery_is_compared_within_its_field(strassen, strassen_bits, workplace):
    for claim in (strassen, strassen_bits):
        Archive(Path("runs")).add(verify(claim), LISTED_ORIGIN)
    result = list_discoveries(Namespace(format=None))
    assert [row[:5] for row in result.rows] == [("2x2x2", "gf2", 7, 7, "matches"), ("2x2x2", "zt", 7, 7, "matches")]
    assert result.data["known_as_of"] in result.notes[-1]


def test_a_format_matches_any_order_of_sides(strassen, workplace):
    Archive(Path("runs")).add(verify(strassen), LISTED_ORIGIN)
    assert len(list_discoveries(Namespace(format="2x2x2")).rows) == 1
    assert list_discoveries(Namespace(format="3x3x3")).rows == ()
    with pytest.raises(UsageError):
        list_discoveries(Namespace(format="3x3"))


def test_the_canonical_digest_is_listed_or_a_dash(strassen, workplace):
    Archive(Path("runs")).add(verify(strassen), LISTED_ORIGIN)
    Archive(Path("runs")).add(verify(naive_factorization(Format(2, 2, 2), Field.ZT)), LISTED_ORIGIN)
    result = list_discoveries(Namespace(format=None))
    found, school = result.data["discoveries"]
    assert [row[-1] for row in result.rows] == [found["canonical"][:12], "-"]
    assert (found["canonical"], school["canonical"]) == (canonical_hash(verify(strassen)), "")


def test_an_empty_archive_has_a_hint(workplace):
    result = list_discoveries(Namespace(format=None))
    assert result.columns == ()
    assert "palaestra discover" in result.notes[-1]


def test_a_damaged_entry_is_reported(strassen, workplace):
    entry, _ = Archive(Path("runs")).add(verify(strassen), LISTED_ORIGIN)
    entry.file.write_text("{")
    result = list_discoveries(Namespace(format=None))
    assert entry.file.name in result.data["damaged"][0]
