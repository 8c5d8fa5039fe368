import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class TrainState:
    step: Any
    apply_fn: Any
    params: Any
    tx: Any
    opt_state: Any

    def __init_subclass__(cls):
        dataclasses.dataclass(frozen=True)(cls)

    @classmethod
    def create(cls, *, params, tx, **fields):
        return cls(step=0, params=params, tx=tx, opt_state=tx.init(params), **fields)

    def replace(self, **changes):
        return dataclasses.replace(self, **changes)
