from palaestra.core.metrics_logger import Sample
from palaestra.evaluation.curves import Curves


def files_of(trained_run):
    return sorted(path.name for path in trained_run.directory.tensorboard_eval.glob("*"))


def test_one_file_for_all_that_is_drawn_and_none_when_nothing_is(trained_run):
    curves = Curves(trained_run.directory)
    curves.close()
    assert files_of(trained_run) == []
    for step in (100, 200):
        curves.draw(Sample(step, {"eval/episodic_return": 1.0}, {}, at=0.0))
    assert len(files_of(trained_run)) == 1
    curves.close()
    curves.draw(Sample(300, {"eval/episodic_return": 1.0}, {}, at=0.0))
    curves.close()
    assert len(files_of(trained_run)) == 2
