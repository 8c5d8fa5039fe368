from pathlib import Path

import pytest

from palaestra.apps.scripts.order import make_room, read_order
from palaestra.apps.scripts.starting import hand_over
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.core.worker_kind import RequestRefused


@pytest.fixture
def saved(runs, scripts, ppo_agent):
    return runs.saved(scripts / "ppo.py", {"agent": ppo_agent})


def test_the_checkpoint_that_was_meant_is_handed_over_as_a_file_of_its_own(runs, scripts, saved):
    directory = runs.make(scripts / "ppo.py", start_from=saved.id)
    order = read_order(directory)
    assert order.start_from == str(saved.checkpoints / "model_0001.yaml")
    make_room(directory, order)
    ready = hand_over(order)
    assert ready.started_from == f"{saved.id}:1"
    assert Path(ready.start["weights"]).read_bytes() == next(iter(CheckpointManager(saved).open().parts.values()))
    assert ready.for_launcher()["start"] == ready.start


def test_without_one_nothing_is_handed_over(runs, scripts):
    order = read_order(runs.make(scripts / "ppo.py"))
    assert hand_over(order) is order


@pytest.mark.parametrize(
    ("target", "told"),
    [("absent", "No run is called 'absent'"), ("SAVED", "holds Agent; dqn.py has no class of that name")],
)
def test_what_cannot_be_begun_with_is_refused_when_it_is_asked_for(runs, scripts, saved, target, told):
    with pytest.raises(RequestRefused, match=told) as refused:
        runs.make(scripts / "dqn.py", start_from=target.replace("SAVED", saved.id))
    assert refused.value.field_errors[0].key == "start_from"
