from importlib import import_module
from pathlib import Path

from palaestra.web import resources
from palaestra.web.resources import RESOURCES, all_routes
from palaestra.web.route import Endpoint


def test_every_file_with_routes_is_in_the_list():
    folder = Path(resources.__file__).parent
    files = [path.stem for path in folder.glob("*.py") if path.read_text().find("\nROUTES") >= 0]
    declared = [import_module(f"palaestra.web.{name}").ROUTES for name in files]
    assert [name for name, routes in zip(files, declared, strict=True) if routes not in RESOURCES] == []


def test_no_method_of_a_path_is_declared_twice():
    pairs = [(one.method, one.path) for one in all_routes() if isinstance(one, Endpoint)]
    assert len(pairs) == len(set(pairs)) > 20


def test_every_route_says_what_it_is_for():
    assert [one.path for one in all_routes() if not one.summary] == []
