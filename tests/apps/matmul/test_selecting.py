from pathlib import Path

import pytest

from palaestra.apps.matmul.archive import Archive, Provenance
from palaestra.apps.matmul.extension import join
from palaestra.apps.matmul.factorization import schoolbook
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.format import Format
from palaestra.apps.matmul.selecting import select_discovery
from palaestra.apps.matmul.verification import verify
from palaestra.core.errors import NotFound
from palaestra.core.run import RunRequest
from palaestra.runs.store import RunStore

ROOT = Path("runs")


@pytest.fixture
def entries(strassen, strassen_bits, workplace):
    run = RunStore(ROOT).create(RunRequest("matmul", "", {}), {}, "finder")
    wide = join(strassen, schoolbook(Format(2, 2, 1), Field.ZT), "columns")
    claims = {"number": strassen, "bits": strassen_bits, "wide": wide}
    origins = {name: Provenance(run.id if name == "wide" else "", "flip", 1, 2, 3.0, 4.0, 5.0) for name in claims}
    return {name: Archive(ROOT).add(verify(claim), origins[name])[0] for name, claim in claims.items()}


def test_an_id_a_fingerprint_a_run_or_a_format_will_do(entries):
    wanted = entries["number"].file
    assert select_discovery(wanted.stem, ROOT).file == wanted
    assert select_discovery(entries["number"].fingerprint[:10], ROOT).file == wanted
    assert select_discovery("2x2x2", ROOT).file == wanted  # for numbers, before the one for bits
    assert select_discovery("finder", ROOT).file == entries["wide"].file
    assert select_discovery("3x2x2", ROOT).file == entries["wide"].file


def test_what_is_not_there_is_said_with_what_to_try(entries):
    with pytest.raises(NotFound, match="No discovery is called 'nothing'"):
        select_discovery("nothing", ROOT)
    with pytest.raises(NotFound) as refused:
        select_discovery("5x5x5", ROOT)
    assert "palaestra discover 5x5x5" in refused.value.hint


def test_an_empty_archive_says_how_to_begin(workplace):
    with pytest.raises(NotFound, match="yet"):
        select_discovery("2x2x2", ROOT)
