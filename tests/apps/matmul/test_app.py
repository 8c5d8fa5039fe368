from dataclasses import asdict

from palaestra.apps.matmul.app import APP
from palaestra.core import plugins


def test_every_entry_of_the_app_can_be_imported():
    parts = {kind: found for kind, found in asdict(APP).items() if found}
    assert parts
    for kind, found in parts.items():
        for name, reference in found.items():
            assert plugins.references(kind)[name] == reference
            assert plugins.load(kind, name) is plugins.load_reference(reference, name)
