import pytest

from palaestra.core.errors import NotFound
from palaestra.web.endpoints import Call


class Requested:
    def __init__(self, **path):
        self.path_params = path


def test_a_call_finds_its_run_by_lookup(context, make_run):
    directory = make_run("first")
    for word in (directory.id, directory.id.lower(), "first", "latest"):
        call = Call(context, Requested(id=word), None, None)
        assert call.entry().id == directory.id
        assert call.directory().path == directory.path


@pytest.mark.parametrize(
    "word", ["..", ".", "first/../..", "/etc", "first\x00", "%2e%2e", "by-name", ".palaestra", "~"]
)
def test_no_input_becomes_a_path(context, make_run, word):
    make_run("first")
    call = Call(context, Requested(id=word), None, None)
    with pytest.raises(NotFound):
        call.directory()
