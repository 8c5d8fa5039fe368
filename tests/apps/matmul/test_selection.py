from __future__ import annotations

from pathlib import Path

import pytest

from palaestra.apps.matmul.schemes.archive import Archive, Provenance
from palaestra.apps.matmul.schemes.composition import join_schemes
from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.verification import verify
from palaestra.apps.matmul.selection import select_discovery
from palaestra.core.errors import NotFound
from palaestra.core.run import RunRequest
from palaestra.runs.store import RunStore

ORIGIN = Provenance("01RUN", "flip", 1, 2, 3.0, 4.0, 5.0)
ROOT = Path("runs")


@pytest.fixture
def entries(strassen, strassen_bits, workplace):
    run = RunStore(ROOT).create(RunRequest("matmul", "", {}), {}, "finder")
    wide = join_schemes(strassen, naive_factorization(Format(2, 2, 1), Field.ZT), "columns")
    claims = {"number": strassen, "bits": strassen_bits, "wide": wide}
    origins = {name: Provenance(run.id if name == "wide" else "", "flip", 1, 2, 3.0, 4.0, 5.0) for name in claims}
    return {name: Archive(ROOT).add(verify(claim), origins[name])[0] for name, claim in claims.items()}


def test_a_discovery_is_selected_by_id_fingerprint_run_or_format(entries):
    wanted = entries["number"].file
    assert select_discovery(wanted.stem, ROOT).file == wanted
    assert select_discovery(entries["number"].fingerprint[:10], ROOT).file == wanted
    assert select_discovery("2x2x2", ROOT).file == wanted  # schemes over numbers come before those over gf2
    assert select_discovery("finder", ROOT).file == entries["wide"].file
    assert select_discovery("3x2x2", ROOT).file == entries["wide"].file


def test_unknown_discoveries_are_refused_with_a_hint(entries):
    with pytest.raises(NotFound, match="No discovery named 'nothing'"):
        select_discovery("nothing", ROOT)
    with pytest.raises(NotFound) as refused:
        select_discovery("5x5x5", ROOT)
    assert "palaestra discover 5x5x5" in refused.value.hint


def test_an_empty_archive_is_refused_with_a_hint(workplace):
    with pytest.raises(NotFound, match="no discoveries"):
        select_discovery("2x2x2", ROOT)
