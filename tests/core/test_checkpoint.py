from palaestra.core.checkpoint import Checkpoint

PLAIN = {"total_time": 1.0, "run": "id", "run_name": "a", "saved_at": 0.0, "policy": {}, "env": {}, "interface": {}}


def test_a_checkpoint_that_was_not_evaluated_has_no_score():
    checkpoint = Checkpoint(epoch=1, agent_step=10, **PLAIN)
    assert checkpoint.score is None
    assert checkpoint.avg_reward is None


def test_two_checkpoints_share_no_dictionary():
    first, second = Checkpoint(epoch=1, agent_step=10, **PLAIN), Checkpoint(epoch=2, agent_step=20, **PLAIN)
    first.metrics["a"] = 1.0
    assert second.metrics == {}
