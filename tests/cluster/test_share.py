import json

import pytest

from palaestra.cluster import share as share_module
from palaestra.cluster.share import own_versions, refuse_other_versions, share_from_json, share_to_json
from palaestra.contracts.errors import UsageError
from palaestra.contracts.evaluation import EvaluationPlan, EvaluationRequest


def plan_of(*seeds, simulation="default"):
    return EvaluationPlan("run:3", "CartPole-v1", {"sutton_barto_reward": True}, seeds, simulation=simulation)


def request_of(*plans):
    return EvaluationRequest("run", "name", 3, 300, "ab" * 32, plans, {"palaestra": "0.1.0"}, "c0ffee")


def test_a_share_arrives_with_the_whole_simulation_and_no_other():
    request = request_of(plan_of(1, 2, 3), plan_of(1, 2, 3, simulation="other"))
    share = share_from_json(share_to_json(request, plan_of(2, 3), trust_module=True))
    assert share.plan == plan_of(2, 3)
    assert share.trust_module
    assert (share.request.weights, share.request.git_commit, share.request.versions) == (
        request.weights,
        "c0ffee",
        {"palaestra": "0.1.0"},
    )


def test_what_travels_is_json():
    fields = json.loads(share_to_json(request_of(plan_of(1)), plan_of(1), trust_module=False))
    assert set(fields) == {"request", "trust_module", "python", "palaestra"}
    assert json.loads(fields["request"])["plans"][0]["seeds"] == [1]


@pytest.mark.parametrize("other", [("3.9", own_versions()[1]), (own_versions()[0], "9.9.9")])
def test_another_python_or_palaestra_is_refused_with_both_versions(other, monkeypatch):
    share = share_from_json(share_to_json(request_of(plan_of(1)), plan_of(1), trust_module=False))
    refuse_other_versions(share)
    python, palaestra = own_versions()
    monkeypatch.setattr(share_module, "own_versions", lambda: other)
    with pytest.raises(UsageError) as refusal:
        refuse_other_versions(share)
    assert f"has Python {other[0]} and Palaestra {other[1]}" in refusal.value.message
    assert f"Python {python} and Palaestra {palaestra} ask" in refusal.value.message
