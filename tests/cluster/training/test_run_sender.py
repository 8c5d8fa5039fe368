import importlib.util
from pathlib import Path

from palaestra.cluster.training import run_sender
from palaestra.cluster.training.run_changes import Appended, CheckpointSaved
from palaestra.cluster.training.run_mirror import add_log
from palaestra.cluster.training.run_sender import LogSender, RunSender, split_report

spec = importlib.util.spec_from_file_location("toy_training", Path(__file__).with_name("toy_training.py"))
toy_training = importlib.util.module_from_spec(spec)
spec.loader.exec_module(toy_training)


def test_reports_are_split_by_size_and_a_large_change_travels_alone(monkeypatch):
    monkeypatch.setattr(run_sender, "MAX_REPORT_BYTES", 10)
    small, large = Appended("a", b"1234"), Appended("b", bytes(100))
    assert split_report([small, small, large, small]) == ([small, small], [large, small])
    assert split_report([large, small]) == ([large], [small])
    assert split_report([small]) == ([small], [])


def test_before_there_is_a_run_there_is_nothing_to_report(tmp_path):
    sender = RunSender(tmp_path, "toy")
    assert sender.report() is None
    assert sender.report(is_last=True) is None
    assert sender.is_complete


def test_scans_are_far_apart_unless_there_is_a_new_checkpoint(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("palaestra.cluster.training.run_sender.time.monotonic", lambda: now[0])
    training = toy_training.ToyTraining(tmp_path)
    sender = RunSender(tmp_path, "toy")
    assert sender.report() is not None
    training.train(1)
    now[0] += run_sender.CHECK_SECONDS
    assert sender.report() is None
    training.save()
    assert [one.epoch for one in sender.report().changes if isinstance(one, CheckpointSaved)] == [1]
    training.train(1)
    now[0] += run_sender.SCAN_SECONDS
    assert sender.report() is not None
    training.stop()


def test_the_last_report_is_complete_and_nothing_follows(tmp_path):
    training = toy_training.ToyTraining(tmp_path)
    sender = RunSender(tmp_path, "toy")
    sender.report()
    training.finish(5)
    assert not sender.is_complete
    assert sender.report(is_last=True).changes[-1].path == "status.json"
    assert sender.is_complete
    assert sender.report(is_last=True) is None


def test_what_came_from_the_driver_is_not_sent_back_except_for_the_metrics(tmp_path):
    toy_training.ToyTraining(tmp_path).stop()
    sender = RunSender(tmp_path, "toy")
    sender.skip_received()
    assert [change.path for change in sender.report().changes] == ["metrics.db"]


def test_a_follower_on_another_disk_sends_its_log_and_nothing_else(tmp_path):
    training = toy_training.ToyTraining(tmp_path / "driver")
    training.stop()
    logs = tmp_path / "there" / training.directory.id / "logs"
    logs.mkdir(parents=True)
    sender = LogSender(tmp_path / "there", 1)
    assert sender.report() is None
    assert sender.is_complete
    for text in ("one\n", "two\n"):
        with (logs / "rank_1.log").open("a") as log:
            log.write(text)
        assert not sender.is_complete
        add_log(tmp_path / "driver", sender.report(is_last=True))
    assert sender.is_complete
    assert training.directory.log_file(1).read_text() == "one\ntwo\n"
