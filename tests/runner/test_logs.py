import logging

from palaestra.runner.logs import log_master, this_rank, warnings_on_stderr
from palaestra.runs.directory import RunDirectory
from palaestra.runs.logs import run_log

logger = logging.getLogger("palaestra.runner.anything")


def test_the_rank_is_torchruns_and_0_alone(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    assert this_rank() == 0
    monkeypatch.setenv("RANK", "3")
    assert this_rank() == 3


def test_the_leader_speaks_for_all(monkeypatch, caplog):
    caplog.set_level(logging.INFO, "palaestra")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        log_master("rank %s speaks", rank)
    assert [record.getMessage() for record in caplog.records] == ["rank 0 speaks"]


def test_a_warning_reaches_the_person_and_information_does_not(capsys):
    with warnings_on_stderr():
        logger.info("all is well")
        logger.warning("the disk is %s", "full")
    logger.warning("said outside")
    assert "palaestra: the disk is full\n" in (err := capsys.readouterr().err)
    assert "all is well" not in err
    assert "palaestra: said outside" not in err


def test_a_line_in_the_log_file_carries_run_and_rank_and_is_not_lost_to_stderr(tmp_path, capsys):
    directory = RunDirectory(tmp_path / "01JCW3X7Z9Q8R5T2V4B6N8M0KH").make()
    with run_log(directory), warnings_on_stderr():
        logger.warning("once in each")
    [line] = directory.log_file().read_text().splitlines()
    assert f"run={directory.id} rank=0" in line
    assert capsys.readouterr().err.count("once in each") == 1
