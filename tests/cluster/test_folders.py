import stat

from palaestra.cluster import folders


def test_a_long_temporary_folder_is_not_too_long_for_sockets(monkeypatch, tmp_path):
    deep = tmp_path / ("x" * 60)
    deep.mkdir()
    monkeypatch.setattr(folders.tempfile, "gettempdir", lambda: str(deep))
    with folders.private_folder() as folder:
        assert len(str(folder)) <= folders.LONGEST
        outer = folder.parent
        assert stat.S_IMODE(outer.stat().st_mode) == 0o700
    assert not outer.exists()
