from argparse import Namespace
from pathlib import Path

import pytest

from palaestra.apps.matmul.archive import Archive, Provenance
from palaestra.apps.matmul.canonical import canonical_word
from palaestra.apps.matmul.factorization import schoolbook
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.format import Format
from palaestra.apps.matmul.listing import list_discoveries
from palaestra.apps.matmul.verification import verify
from palaestra.core.errors import UsageError

LISTED_ORIGIN = Provenance("01RUN", "flip", 3, 1000, 1.5, 1.4, 0.0)


def test_each_discovery_stands_beside_the_rank_of_its_own_field(strassen, strassen_bits, workplace):
    for claim in (strassen, strassen_bits):
        Archive(Path("runs")).add(verify(claim), LISTED_ORIGIN)
    answer = list_discoveries(Namespace(format=None))
    assert [row[:5] for row in answer.rows] == [("2x2x2", "gf2", 7, 7, "matches"), ("2x2x2", "zt", 7, 7, "matches")]
    assert answer.data["known_as_of"] in answer.notes[-1]


def test_a_format_is_looked_for_whatever_the_order_of_its_sides(strassen, workplace):
    Archive(Path("runs")).add(verify(strassen), LISTED_ORIGIN)
    assert len(list_discoveries(Namespace(format="2x2x2")).rows) == 1
    assert list_discoveries(Namespace(format="3x3x3")).rows == ()
    with pytest.raises(UsageError):
        list_discoveries(Namespace(format="3x3"))


def test_the_canonical_form_is_shown_and_one_that_is_out_of_reach_is_a_dash(strassen, workplace):
    Archive(Path("runs")).add(verify(strassen), LISTED_ORIGIN)
    Archive(Path("runs")).add(verify(schoolbook(Format(2, 2, 2), Field.ZT)), LISTED_ORIGIN)
    answer = list_discoveries(Namespace(format=None))
    found, school = answer.data["discoveries"]
    assert [row[-1] for row in answer.rows] == [found["canonical"][:12], "-"]
    assert (found["canonical"], school["canonical"]) == (canonical_word(verify(strassen)), "")


def test_an_empty_archive_says_what_to_try(workplace):
    answer = list_discoveries(Namespace(format=None))
    assert answer.columns == ()
    assert "palaestra discover" in answer.notes[-1]


def test_a_damaged_entry_is_told(strassen, workplace):
    entry, _ = Archive(Path("runs")).add(verify(strassen), LISTED_ORIGIN)
    entry.file.write_text("{")
    answer = list_discoveries(Namespace(format=None))
    assert entry.file.name in answer.data["damaged"][0]
