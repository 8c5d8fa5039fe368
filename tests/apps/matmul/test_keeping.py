import pytest

from palaestra.apps.matmul import keeping
from palaestra.apps.matmul.archive import Provenance
from palaestra.apps.matmul.discover_config import DiscoverConfig
from palaestra.apps.matmul.discovering import find_or_make
from palaestra.apps.matmul.factorization import schoolbook
from palaestra.apps.matmul.field import Field
from palaestra.apps.matmul.format import Format
from palaestra.apps.matmul.keeping import Kept, keep
from palaestra.apps.matmul.verification import verify
from palaestra.core.clock import SystemClock
from palaestra.loggers.fanout import Fanout
from palaestra.runner.session import RunSession

ORIGIN = Provenance("01RUN", "flip", 1, 2, 3.0, 4.0, 5.0)


class Shelf:
    """A sink for files only."""

    name = "shelf"

    def __init__(self):
        self.files = []

    def files_made(self, name, kind, files):
        self.files.append((name, kind, [file.name for file in files]))

    def close(self):
        pass


@pytest.fixture
def shelf():
    return Shelf()


@pytest.fixture
def sinks(shelf):
    dropped = []
    made = Fanout(lambda name, error: dropped.append((name, error)))
    made.add("shelf", lambda: shelf)
    yield made
    assert dropped == []


@pytest.fixture
def session(workplace):
    return RunSession(find_or_make(DiscoverConfig(), "first", "palaestra discover"), 0, SystemClock())


def test_a_discovery_is_archived_once_and_its_file_told(strassen_bits, session, sinks, shelf):
    kept = [keep(verify(strassen_bits), ORIGIN, session, sinks, bench=True) for _ in range(2)]
    assert [one.is_new for one in kept] == [True, False]
    name = kept[0].file.rpartition("/")[2]
    assert shelf.files == [("discovery", "algorithm", [name])] * 2


def test_it_is_timed_only_when_asked(strassen, session, sinks, monkeypatch):
    monkeypatch.setattr(keeping, "first_look", lambda *_: "fast")
    looks = [keep(verify(strassen), ORIGIN, session, sinks, bench=bench).remark for bench in (True, False)]
    assert looks == ["fast", ""]


def test_what_everybody_knows_is_not_kept(session, sinks, shelf):
    school = verify(schoolbook(Format(2, 2, 2), Field.ZT))
    assert keep(school, ORIGIN, session, sinks, bench=True) == Kept()
    assert shelf.files == []
