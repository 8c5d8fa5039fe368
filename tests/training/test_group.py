from palaestra.algorithms import group
from palaestra.algorithms.group import PeerLost


def test_modules_that_were_compiled_earlier_raise_the_same_exception():
    assert PeerLost is group.PeerLost
