from inspect import signature

from palaestra.core.catalogue import Catalogue
from palaestra.core.plugins import load, names


def test_every_catalogue_has_what_the_contract_says():
    assert "discoveries" in names("catalogues")
    for name in names("catalogues"):
        for method in ("listing", "entry"):
            given = list(signature(getattr(load("catalogues", name), method)).parameters)
            assert given == list(signature(getattr(Catalogue, method)).parameters)[1:]
