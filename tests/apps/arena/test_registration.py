import subprocess
import sys

import gymnasium

from palaestra.apps.arena.registration import ID, register


def test_the_id_stands_for_the_single_form_and_the_vector_form():
    spec = gymnasium.spec(ID)
    assert spec.entry_point == "palaestra.apps.arena.env:ArenaEnv"
    assert spec.vector_entry_point == "palaestra.apps.arena.env:ArenaVectorEnv"


def test_registering_twice_is_silent():
    register()  # a warning would be an error here


def test_knowing_arena_does_not_load_it():
    """Whoever trains CartPole should not wait for it."""
    check = "import sys, palaestra.apps.arena.registration; print('palaestra.apps.arena.env' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", check], text=True).strip() == "False"
