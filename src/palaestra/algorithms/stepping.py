"""What algorithms step: environments in Python, or compiled copies of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    from palaestra.core.spaces import EnvInterface
    from palaestra.envs.vector.in_process import VectorEnvs, VectorStep


class SteppableEnvs(Protocol):
    """What a rollout needs of environments; see `palaestra.envs.vector.in_process`."""

    interface: EnvInterface

    def step(self, actions: np.ndarray, out: Any) -> VectorStep: ...


class NativeEnvs(Protocol):
    """Compiled copies of environments. Python's are out of date between `import_state` and `export_state`."""

    def import_state(self) -> None: ...
    def export_state(self) -> None: ...
    def invalidate(self) -> None: ...
    def stepper(self, envs: VectorEnvs) -> SteppableEnvs: ...


class CompiledStepping:
    """Part of an algorithm in torch: steps compiled copies of its environments, where there are any."""

    envs: VectorEnvs
    native_envs: NativeEnvs | None

    def stepped_envs(self) -> SteppableEnvs:
        if self.native_envs is None:
            return self.envs
        self.native_envs.import_state()
        return self.native_envs.stepper(self.envs)

    def export_env_state(self) -> None:
        if self.native_envs is not None:
            self.native_envs.export_state()

    def env_state_changed(self) -> None:
        """The environments were reset or restored."""
        if self.native_envs is not None:
            self.native_envs.invalidate()
