import subprocess
import sys
from dataclasses import asdict

import pytest

from palaestra.core import plugins
from palaestra.runner.executors import LOCAL, RAY


@pytest.mark.parametrize(("name", "executor"), [("local", LOCAL), ("ray", RAY)])
def test_every_service_of_our_executors_can_be_imported(name, executor):
    assert plugins.load("executors", name) is executor
    for service, reference in asdict(executor).items():
        if reference is not None:
            assert callable(plugins.load_reference(reference, service))


def test_listing_executors_imports_neither_torch_nor_ray():
    program = "import sys, palaestra.runner.executors; assert not {'torch', 'ray', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
