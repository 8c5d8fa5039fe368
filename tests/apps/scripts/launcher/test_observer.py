from __future__ import annotations

import signal
import types

import pytest

from palaestra.apps.scripts.launcher.messages import fork_count
from palaestra.apps.scripts.launcher.observer import Observer, Stopped, find_arguments, names_in_scope


def test_the_step_is_the_scripts_own_where_it_counts_one():
    observer = Observer(lambda *_: None, 0)
    observer.count_steps()
    assert observer.global_step == 1
    observer.script["global_step"] = 640
    assert observer.global_step == 640


def test_an_environment_in_another_process_does_not_know_the_step_nor_stop():
    observer = Observer(lambda *_: None, 0)
    observer._owner = fork_count() - 1
    observer.stop_signal = signal.SIGTERM
    observer.count_steps()
    assert observer.global_step == -1


def test_a_stop_is_carried_out_at_the_next_step():
    observer = Observer(lambda *_: None, 0)
    observer.count_steps()
    observer.stop_signal = signal.SIGTERM
    with pytest.raises(Stopped) as stopped:
        observer.count_steps()
    assert stopped.value.code == 143


def test_saving_happens_inside_a_step_when_it_is_due():
    saved = []
    observer = Observer(lambda *_: None, 1e-9)
    observer.save = saved.append
    observer.count_steps()
    assert saved == ["periodic"]


def test_what_the_script_has_is_remembered_at_its_first_step_and_not_again():
    remembered = []
    observer = Observer(lambda *_: None, 0)
    observer.collect_statistics = remembered.append
    observer.count_steps(4)
    observer.count_steps(4)
    observer.count_steps()
    assert remembered == [None]


def test_without_an_interval_nothing_is_saved_meanwhile():
    saved = []
    observer = Observer(lambda *_: None, 0)
    observer.save = saved.append
    observer.count_steps()
    assert saved == []


def test_episodes_are_reported_with_all_their_figures():
    messages = []
    observer = Observer(lambda *message: messages.append(message), 0)
    observer.episode_ended(2, 10.0, 5, terminated=False)
    assert messages[0][:6] == ("episode", 2, 10.0, 5, False, 0)
    assert observer.episodes == 1


def test_environments_elsewhere_are_saved_for_from_here():
    saved, shown = [], []
    observer = Observer(lambda *_: None, 1e-9)
    observer.save = saved.append
    observer.update_live_view = lambda probes, now: shown.append(probes) or now + 60
    observer.count_steps(4)
    observer.count_steps(4)
    assert saved[0] == "periodic"
    assert shown == [{}], "and looked after when it is due"


def test_only_environments_that_are_in_an_episode_can_be_shown():
    observer = Observer(lambda *_: None, 0)

    class Made:
        def __init__(self, index, is_open):
            self.index, self.is_open = index, is_open

    probes = [Made(0, False), Made(1, True), Made(2, True)]
    for one in probes:
        observer.add_env(one, "CartPole-v1")
    del probes[2], one
    assert observer.probes == {1: probes[1]}
    assert observer.env_id == "CartPole-v1"


def test_rewards_are_added_up_now_and_then_so_that_an_endless_episode_takes_no_room():
    class Made:
        index, is_open, sums = 0, True, 0

        def sum_rewards(self):
            self.sums += 1

        def find_shortcut(self):
            pass

    made, observer = Made(), Observer(lambda *_: None, 0)
    observer.add_env(made, "CartPole-v1")
    observer.count_steps()
    observer.count_steps()
    assert made.sums == 1


PROGRAM = """
size = 1
def inner(look):
    size = 3
    return look()
def main(look):
    agent, size = "network", 2
    return inner(look)
"""


def load():
    module = types.ModuleType("made")
    types.FunctionType(compile(PROGRAM, "made.py", "exec"), vars(module))()
    return module


def test_globals_are_known_and_what_functions_at_work_have():
    script = load()
    names = script.main(lambda: names_in_scope(vars(script)))
    assert (names["agent"], names["size"]) == ("network", 2)
    assert "PROGRAM" not in names
    assert names_in_scope(vars(script))["size"] == 1


def test_arguments_go_by_several_names():
    args = types.SimpleNamespace(seed=1)
    assert find_arguments({"cfg": args}) is args
    assert find_arguments({"args": args, "config": types.SimpleNamespace()}) is args
    assert find_arguments({"args": [1, 2], "cfg": "text"}) is None
