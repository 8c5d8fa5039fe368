from palaestra.core.reports import PhaseTimes, PpoStats

CLEANRL_LOSSES = {
    "value_loss",
    "policy_loss",
    "entropy",
    "old_approx_kl",
    "approx_kl",
    "clipfrac",
    "explained_variance",
}


def test_update_statistics_carry_cleanrls_names():
    stats = PpoStats(*range(9), minibatches=1)
    assert {name.removeprefix("losses/") for name in stats.metrics()} >= CLEANRL_LOSSES


def test_times_begin_at_zero():
    assert PhaseTimes() == PhaseTimes(rollout=0.0, learn=0.0, other=0.0)
