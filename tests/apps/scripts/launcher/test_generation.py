import os

from palaestra.apps.scripts.launcher.generation import generation


def told_by_child():
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, bytes([generation()]))
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    told = os.read(reading, 1)[0]
    os.close(reading)
    return told


def test_a_forked_process_is_of_another_generation_and_this_one_stays_what_it_is():
    before = generation()
    assert told_by_child() == before + 1
    assert generation() == before
