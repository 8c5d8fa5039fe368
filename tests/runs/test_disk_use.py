from __future__ import annotations

import shutil
import subprocess

import pytest

from palaestra.runs.directory import RunDirectory
from palaestra.runs.disk_use import measure_disk_use


@pytest.fixture
def directory(tmp_path):
    return RunDirectory(tmp_path / "01JCW3X7Z9Q8R5T2V4B6N8M0KH").make()


def test_the_parts_are_what_du_says_of_the_whole_directory(directory):
    (directory.tensorboard / "events").write_bytes(bytes(100_000))
    (directory.videos / "deep").mkdir()
    (directory.videos / "deep" / "film.mp4").write_bytes(bytes(1_000_000))
    directory.metrics_file.write_bytes(bytes(50_000))
    directory.journal_file.write_text("x" * 5000)
    use = measure_disk_use(directory)
    du = shutil.which("du")
    assert du
    reported = int(subprocess.run([du, "-s", "-B1", directory.path], capture_output=True, check=True).stdout.split()[0])
    own = directory.path.stat().st_blocks * 512
    assert use.total == reported - own
    assert list(use.parts)[:3] == ["videos", "tensorboard", "metrics"]
    assert list(use.parts.values()) == sorted(use.parts.values(), reverse=True)


def test_a_log_beside_the_database_and_a_table_belong_to_the_metrics(directory):
    for path in (directory.metrics_file, directory.metrics_csv_file):
        path.write_bytes(bytes(8192))
    directory.metrics_file.with_name("metrics.db-wal").write_bytes(bytes(8192))
    assert measure_disk_use(directory).parts["metrics"] == 3 * 8192


def test_links_are_not_followed(directory, tmp_path):
    (tmp_path / "large").write_bytes(bytes(1_000_000))
    (directory.videos / "film.mp4").symlink_to(tmp_path / "large")
    (directory.path / "loop").symlink_to(directory.path)
    assert measure_disk_use(directory).total < 100_000


def test_the_copy_of_the_curves_that_a_daemon_keeps_counts_where_there_is_one(directory, tmp_path):
    curves = tmp_path / "curves"
    assert "curves of the daemon" not in measure_disk_use(directory, curves).parts
    curves.mkdir()
    (curves / "0.points").write_bytes(bytes(20_000))
    assert measure_disk_use(directory, curves).parts["curves of the daemon"] >= 20_000


def test_a_run_that_is_gone_takes_nothing(tmp_path):
    assert measure_disk_use(RunDirectory(tmp_path / "gone")).total == 0
