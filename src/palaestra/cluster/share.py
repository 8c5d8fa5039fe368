"""Some seeds of one simulation, with everything that a worker needs to play them but the checkpoint's bytes.

The identity of the code travels with every share: other code may play the same seeds differently, and nobody would
know. A worker whose code differs says what it has; who asked names the files (see `describe_other_code`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from palaestra.evaluation.plans import request_from_json, request_to_json
from palaestra.runs.code_identity import (
    CodeIdentity,
    code_identity,
    differences,
    module_files,
    package_files,
    version_differences,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from palaestra.cluster.answers import OtherCode
    from palaestra.core.evaluation import EvaluationPlan, EvaluationRequest

FILES_NAMED = 5


@dataclass(frozen=True)
class Share:
    request: EvaluationRequest  # with the one plan that is to be played
    trust_module: bool  # whoever asks has decided that the modules it names may be imported
    code: CodeIdentity  # of who asks
    allow_different_code: bool = False

    @property
    def plan(self) -> EvaluationPlan:
        (plan,) = self.request.plans
        return plan


def share_to_json(
    request: EvaluationRequest,
    plan: EvaluationPlan,
    *,
    trust_module: bool,
    code: CodeIdentity,
    allow_different_code: bool = False,
) -> str:
    """`plan` is one of the request's, with as many of its seeds as are to be played."""
    fields = {"trust_module": trust_module, "code": asdict(code), "allow_different_code": allow_different_code}
    return json.dumps({"request": request_to_json(replace(request, plans=(plan,))), **fields})


def share_from_json(text: str) -> Share:
    fields = json.loads(text)
    code = CodeIdentity(**fields["code"])
    return Share(**{**fields, "request": request_from_json(fields["request"]), "code": code})


def imported_modules(plans: Iterable[EvaluationPlan], policy: Mapping[str, Any]) -> tuple[str, ...]:
    """The user's modules that playing these plans imports: of environments, and of the policy."""
    named = [plan.env_id for plan in plans if ":" in plan.env_id]
    named += [policy["module"]] if policy.get("module") else []
    return tuple(sorted({name.partition(":")[0] for name in named}))


@cache
def own_code(modules: tuple[str, ...]) -> CodeIdentity:
    """Read once per process: what was imported stays, whatever becomes of the files."""
    return code_identity(modules)


def other_code(asked: CodeIdentity) -> dict[str, Any] | None:
    """On the worker: what differs here from the code of who asks, as `answers.OtherCode`; None: nothing."""
    here = own_code(tuple(asked.modules))
    modules = {name: module_files([name]) for name, found in asked.modules.items() if here.modules.get(name) != found}
    versions = version_differences(asked, here)
    package = package_files() if here.package != asked.package else None
    if not versions and package is None and not modules:
        return None
    return {"versions": versions, "package": package, "modules": modules}


def describe_other_code(code: OtherCode) -> list[str]:
    """Where the code was asked for: versions, and the files that differ, by name."""
    found = list(code.versions)
    if code.package is not None:
        found += [f"palaestra/{name}" for name in differences(package_files(), code.package)]
    for module, files in code.modules.items():
        found += differences(module_files([module]), files) if files else [f"{module} (not found there)"]
    return found


def shorten(names: list[str]) -> str:
    """`a.py, b.py and 3 more`."""
    rest = len(names) - FILES_NAMED
    return ", ".join(names[:FILES_NAMED]) + (f" and {rest} more" if rest > 0 else "")
