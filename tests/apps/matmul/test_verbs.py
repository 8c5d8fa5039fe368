"""Each verb as typed; results are verified by the archive's own reading."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest

from palaestra.apps.matmul.schemes.archive import Archive, Discovery
from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.scheme_files import encode_scheme
from palaestra.apps.matmul.verbs import discoveries
from palaestra.core.errors import NotFound, UsageError


def run(*words):
    return discoveries(Namespace(words=list(words), quiet=True, json=False))


@pytest.fixture
def files(strassen, strassen_bits, gaussian, workplace):
    claims = {"s": strassen, "bits": strassen_bits, "zi": gaussian}
    claims["n122"] = naive_factorization(Format(1, 2, 2), Field.ZT)
    claims["n333"] = naive_factorization(Format(3, 3, 3), Field.Q)
    for name, claim in claims.items():
        Path(f"{name}.json").write_text(json.dumps(encode_scheme(claim)))


def newest(result):
    entry = Archive(Path("runs")).read(Path(result.data["file"]))
    assert isinstance(entry, Discovery)
    return entry


@pytest.mark.parametrize(
    ("words", "format_", "field", "rank"),
    [
        (("product", "s.json", "s.json"), "4x4x4", "zt", 49),
        (("product", "s.json", "bits.json"), "4x4x4", "gf2", 49),
        (("product", "s.json", "zi.json"), "4x4x4", "zi", 49),
        (("merge", "s.json", "n122.json", "side=rows"), "3x2x2", "zt", 11),
        (("merge", "s.json", "n122.json", "side=columns"), "2x2x3", "zt", 11),
        (("extend", "s.json", "side=inner", "by=2"), "2x4x2", "zt", 15),
        (("project", "n333.json", "by=3"), "2x2x2", "q", 8),
        (("project", "zi.json", "side=rows"), "1x2x2", "zi", 4),
        (("convert", "zi.json", "field=gf2"), "2x2x2", "gf2", 7),
        (("convert", "s.json", "field=z3"), "2x2x2", "z3", 7),
        (("reduce", "s.json"), "2x2x2", "zt", 7),
    ],
)
def test_results_are_archived_with_their_parents(words, format_, field, rank, files):
    result = run(*words)
    entry = newest(result)
    found = (str(entry.scheme.format), str(entry.scheme.field), entry.scheme.rank)
    assert found == (format_, field, rank)
    assert entry.provenance["method"] == words[0]
    assert entry.provenance["origin"] == "derived"
    assert len(entry.provenance["parents"]) == (2 if words[0] in ("product", "merge") else 1)


def test_archived_schemes_are_operands_by_their_id(files):
    first = run("product", "s.json", "n122.json").data["id"]
    assert newest(run("extend", first, "side=rows")).scheme.rank == 28 + 16


def test_build_combines_what_is_archived(files):
    run("import", "s.json")
    assert newest(run("build", "6x4x4", "field=gf2")).scheme.rank == 77


def test_exported_schemes_can_be_imported(files):
    for name in ("s", "zi"):
        for suffix in (".json", ".txt"):
            run("export", f"{name}.json", f"{name}-out{suffix}")
            (found,) = run("import", f"{name}-out{suffix}").data["schemes"]
            assert found["rank"] == 7
    with pytest.raises(UsageError, match="exists already"):
        run("export", "s.json", "s-out.json")


def test_import_counts_what_was_proved_and_refused(files):
    Path("bad.txt").write_text("m1 = q")
    result = run("import", "s.json", "bits.json", "bad.txt", "s.json")
    assert result.data["proved"] == {"gf2": 1, "zt": 2}
    assert (result.data["refused"], result.data["new"], result.exit_code) == (1, 2, 1)
    assert "Unknown name: 'q'" in result.notes[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("mrge", "a", "b"), "Did you mean 'merge'"),
        (("merge", "s.json"), "got 1 operands"),
        (("lift", "s.json", "side=rows"), "has no setting 'side'"),
        (("merge", "s.json", "n333.json"), "cannot be merged"),
        (("project", "s.json", "side=width"), "No side named 'width'"),
        (("extend", "s.json", "by=99"), "between 1 and 15"),
        (("convert", "bits.json", "field=z"), "use 'lift'"),
        (("convert", "s.json"), "field is missing"),
        (("reduce", "zi.json"), "Only real fields"),
        (("export", "s.json", "s.pdf"), "No export as '.pdf'"),
    ],
)
def test_wrong_uses_are_refused_with_advice(words, message, files):
    with pytest.raises(UsageError) as refused:
        run(*words)
    assert message in str(refused.value)


def test_absent_schemes_are_not_found(files):
    with pytest.raises(NotFound):
        run("reduce", "absent.json")
