from __future__ import annotations

from palaestra.algorithms.stepping import CompiledStepping


class Copies:
    """Compiled copies that record what is asked of them."""

    def __init__(self):
        self.calls = []

    def import_state(self):
        self.calls.append("import")

    def export_state(self):
        self.calls.append("export")

    def invalidate(self):
        self.calls.append("invalidate")

    def stepper(self, envs):
        self.calls.append("stepper")
        return ("compiled", envs)


class Algorithm(CompiledStepping):
    def __init__(self, copies):
        self.envs = "python"
        self.native_envs = copies


def test_without_compiled_copies_python_steps():
    algorithm = Algorithm(None)
    assert algorithm.stepped_envs() == "python"
    algorithm.export_env_state()
    algorithm.env_state_changed()


def test_compiled_copies_take_the_state_before_they_step_and_give_it_back():
    copies = Copies()
    algorithm = Algorithm(copies)
    assert algorithm.stepped_envs() == ("compiled", "python")
    algorithm.export_env_state()
    algorithm.env_state_changed()
    assert copies.calls == ["import", "stepper", "export", "invalidate"]
