from palaestra.training import graphics
from palaestra.training.graphics import is_surely_cpu


def test_a_driver_means_that_torch_has_to_be_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(graphics, "DOORS", (tmp_path / "one", tmp_path / "other"))
    assert is_surely_cpu("auto")
    (tmp_path / "other").touch()
    assert not is_surely_cpu("auto")


def test_what_was_asked_for_by_name_needs_no_look(tmp_path, monkeypatch):
    monkeypatch.setattr(graphics, "DOORS", (tmp_path,))
    assert is_surely_cpu("cpu")
    monkeypatch.setattr(graphics, "DOORS", ())
    assert not is_surely_cpu("cuda")
