import json
from dataclasses import replace

import pytest

from palaestra.apps.matmul.schemes.archive import Archive, Discovery, Provenance
from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.search.reduce_additions import minimize_additions
from palaestra.core.errors import DamagedFile

ORIGIN = Provenance("01RUN", "flip", 3, 1000, 1.5, 1.4, 0.0, parents=("abc",))


def test_an_entry_round_trips_with_its_provenance(strassen, tmp_path):
    archive = Archive(tmp_path)
    added, is_new = archive.add(verify(strassen), ORIGIN)
    assert is_new
    (entry,) = archive.entries()
    assert (entry.scheme.rank, entry.fingerprint, entry.additions_naive) == (7, added.fingerprint, 18)
    assert (entry.provenance["run"], entry.provenance["seed"], entry.provenance["parents"]) == ("01RUN", 3, ["abc"])


def test_equivalent_schemes_share_an_entry(strassen, tmp_path):
    archive = Archive(tmp_path)
    archive.add(verify(strassen), ORIGIN)
    turned = replace(strassen, u=-strassen.u[::-1], v=strassen.v[::-1], w=-strassen.w[::-1])
    entry, is_new = archive.add(verify(turned), ORIGIN)
    assert not is_new
    assert len(list(archive.entries())) == 1
    assert entry.provenance["run"] == "01RUN"


def test_fields_have_separate_entries(strassen, strassen_bits, tmp_path):
    archive = Archive(tmp_path)
    for claim in (strassen, strassen_bits, naive_factorization(Format(2, 2, 2), Field.ZT)):
        assert archive.add(verify(claim), ORIGIN)[1]
    assert len(list(archive.entries())) == 3


@pytest.mark.fault("V3")
def test_an_invalid_entry_is_reported_and_the_others_are_listed(strassen, strassen_bits, tmp_path):
    archive = Archive(tmp_path)
    bad, _ = archive.add(verify(strassen), ORIGIN)
    archive.add(verify(strassen_bits), ORIGIN)
    data = json.loads(bad.file.read_text())
    data["scheme"]["u"][0][0] += 1
    bad.file.write_text(json.dumps(data))
    found = list(archive.entries())
    assert sorted(isinstance(one, Discovery) for one in found) == [False, True]
    with pytest.raises(DamagedFile, match="Verification of .* failed"):
        archive.read(bad.file)


def test_a_missing_archive_is_empty(tmp_path):
    assert list(Archive(tmp_path / "absent").entries()) == []


def test_an_equivalent_form_with_fewer_additions_replaces_the_entry(strassen, tmp_path):
    archive = Archive(tmp_path)
    heavy, _ = archive.add(verify(strassen), ORIGIN)
    light, is_new = archive.add(minimize_additions(heavy.scheme, 60.0, 1), replace(ORIGIN, run="02RUN"))
    assert not is_new
    assert light.file == heavy.file
    (entry,) = archive.entries()
    assert (heavy.additions_eliminated, entry.additions_eliminated) == (18, 15)
    assert (entry.provenance["run"], entry.provenance["lighter_form"]["run"]) == ("01RUN", "02RUN")
    assert archive.add(verify(strassen), ORIGIN)[0].additions_eliminated == 15  # and not the reverse
