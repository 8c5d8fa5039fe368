import signal
import subprocess
import sys

from palaestra.apps.scripts.launcher.observer import Observer, Stopped
from palaestra.apps.scripts.launcher.run import ScriptOutcome, install_signal_handlers, run_as_main, versions


class MessageWriter:
    def __init__(self):
        self.messages = []

    def send(self, *message):
        self.messages.append(message)


def test_every_way_to_leave_has_its_name(capsys):
    ways = {
        (): ("finished", 0),
        (Stopped(143),): ("stopped", 143),
        (SystemExit(0),): ("finished", 0),
        (SystemExit(3),): ("failed", 3),
        (SystemExit("words"),): ("failed", 1),
        (ValueError("why"),): ("failed", 1),
    }
    for raised, wanted in ways.items():
        with ScriptOutcome() as ending:
            for error in raised:
                raise error
        assert (ending.state, ending.code) == wanted
    assert ending.error == "ValueError: why"
    assert "ValueError: why" in capsys.readouterr().err


def test_the_script_is_main_has_its_words_and_what_it_leaves_is_saved(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["before"])
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    monkeypatch.setitem(__import__("sys").modules, "__main__", __import__("sys").modules["__main__"])
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    script = tmp_path / "made.py"
    script.write_text("import sys\nwords, name, file = sys.argv, __name__, __file__\nglobal_step = 12\n")
    writer = MessageWriter()
    observer = Observer(writer.send, 0)
    saved = []
    observer.save = saved.append
    try:
        assert run_as_main(script, ["--seed", "1"], observer, writer) == 0
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert observer.script["words"] == [str(script), "--seed", "1"]
    assert (observer.script["name"], observer.script["file"]) == ("__main__", str(script))
    assert saved == ["finished"]
    assert writer.messages == [("ended", "finished", "", 12, 0)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made.py"]


def test_the_first_signal_waits_for_a_step(monkeypatch):
    monkeypatch.setenv("SDL_NO_SIGNAL_HANDLERS", "1")
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)
    handlers = {number: signal.getsignal(number) for number in numbers}
    observer = Observer(lambda *_: None, 0)
    try:
        install_signal_handlers(observer)
        signal.raise_signal(signal.SIGTERM)
        assert observer.stop_signal == signal.SIGTERM
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def test_what_was_put_off_until_the_end_is_done_and_cannot_change_how_it_ended():
    program = (
        "import atexit, os\nfrom palaestra.apps.scripts.launcher.run import run_exit_functions\n"
        "atexit.register(print, 'written down')\natexit.register(exit, 7)\nrun_exit_functions()\nos.write(1, b'left')\n"
        "import sys\nsys.stdout.flush()\nos._exit(3)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 3
    assert {"written", "down", "left"} <= set(done.stdout.replace("left", "left ").split())


def test_an_installed_excepthook_is_called(monkeypatch):
    received = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, trace: received.append((kind, str(error))))
    with ScriptOutcome():
        raise ValueError("why")
    assert received == [(ValueError, "why")]


def test_versions_name_the_interpreter():
    assert "python" in versions()
