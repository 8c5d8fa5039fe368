"""Some seeds of one simulation, with everything that a stranger needs to play them but the checkpoint's bytes."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from palaestra.contracts.errors import UsageError
from palaestra.evaluation.request import request_from_json, request_to_json
from palaestra.runs.environment import package_versions

if TYPE_CHECKING:
    from palaestra.contracts.evaluation import EvaluationPlan, EvaluationRequest


@dataclass(frozen=True)
class Share:
    request: EvaluationRequest  # with the one plan that is to be played
    trust_module: bool  # whoever asks has decided that the modules it names may be imported
    python: str  # of who asks
    palaestra: str

    @property
    def plan(self) -> EvaluationPlan:
        (plan,) = self.request.plans
        return plan


def share_to_json(request: EvaluationRequest, plan: EvaluationPlan, *, trust_module: bool) -> str:
    """`plan` is one of the request's, with as many of its seeds as are to be played."""
    python, palaestra = own_versions()
    fields = {"trust_module": trust_module, "python": python, "palaestra": palaestra}
    return json.dumps({"request": request_to_json(replace(request, plans=(plan,))), **fields})


def share_from_json(text: str) -> Share:
    fields = json.loads(text)
    return Share(**{**fields, "request": request_from_json(fields["request"])})


def own_versions() -> tuple[str, str]:
    """Of Python (3.11) and of Palaestra."""
    return f"{sys.version_info.major}.{sys.version_info.minor}", package_versions()["palaestra"]


def refuse_other_versions(share: Share) -> None:
    """Another Python or Palaestra may play the same seeds otherwise, and nobody would know."""
    python, palaestra = own_versions()
    if (python, palaestra) != (share.python, share.palaestra):
        raise UsageError(
            f"The worker on {platform.node()} has Python {python} and Palaestra {palaestra}, but Python "
            f"{share.python} and Palaestra {share.palaestra} ask.",
            "Install the same on every machine of the cluster.",
        )
