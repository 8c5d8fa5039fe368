from dataclasses import fields

from palaestra.core.reports import PhaseTimes, UpdateStats

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
    assert {field.name for field in fields(UpdateStats)} >= CLEANRL_LOSSES


def test_times_begin_at_zero():
    assert PhaseTimes() == PhaseTimes(rollout=0.0, learn=0.0, other=0.0)
