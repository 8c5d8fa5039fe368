"""What vector environments of Gymnasium 1 tell with a step, in the form of 0.29; the new form is understood as well."""

from __future__ import annotations

from typing import Any

import numpy as np

from .one_number import OneNumber


class FinalInfos(np.ndarray):
    """One dictionary or None per environment; asked by a name, what all of them say under it, as in Gymnasium 1."""

    batched: dict[str, Any]

    def __getitem__(self, key: Any) -> Any:
        return self.batched[key] if isinstance(key, str) else super().__getitem__(key)

    def __contains__(self, key: Any) -> bool:
        return key in self.batched if isinstance(key, str) else bool(super().__contains__(key))


def old_infos(infos: dict[str, Any], count: int) -> dict[str, Any]:
    """`final_info` as one dictionary or None per environment, and `final_observation` under its old name."""
    if "final_obs" in infos:
        infos["final_observation"], infos["_final_observation"] = infos["final_obs"], infos["_final_obs"]
    final = infos.get("final_info")
    if isinstance(final, dict):
        each = np.empty(count, dtype=object).view(FinalInfos)
        each.batched = final
        for index in range(count):
            each[index] = _one_of(final, index) if infos["_final_info"][index] else None
        infos["final_info"] = each
    return infos


def _one_of(batched: dict[str, Any], index: int) -> dict[str, Any]:
    """The entries of one environment; an episode's figures are arrays of one number, as they were."""
    single: dict[str, Any] = {}
    for key, value in batched.items():
        mask = batched.get(f"_{key}")
        if key.startswith("_") or (mask is not None and not mask[index]):
            continue
        single[key] = _one_of(value, index) if isinstance(value, dict) else value[index]
    if isinstance(single.get("episode"), dict):
        single["episode"] = {key: np.atleast_1d(value).view(OneNumber) for key, value in single["episode"].items()}
    return single
