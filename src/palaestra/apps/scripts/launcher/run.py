"""Become the script: adapt what it imports, listen, run it as `__main__`, save its networks, tell how it ended."""

from __future__ import annotations

import atexit
import ctypes
import importlib
import importlib.util
import os
import platform
import signal
import sys
import types
import warnings
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from .messages import MessageWriter
from .observer import Observer, Stopped

PR_SET_PDEATHSIG = 1
PATIENCE_SECONDS = 10  # for a step to come by after a stop was asked for
PARENT_LEVELS = 2  # folders over the script's own, where `cleanrl_utils` lies in a checkout
PARSER_WARNING = r"(?s).*(annotated with type|default value|does not match).*"


def run(order: dict[str, Any]) -> None:
    """Never returns: libraries of the script must not change the exit code while they are torn down."""
    die_with_parent(int(order["parent"]))
    wire = MessageWriter(int(order["descriptor"]))
    observer = Observer(wire.say, float(order["save_seconds"]))
    script = Path(order["script"])
    source = script.read_bytes()
    set_paths(script)
    wire.say("adapted", adapt(observer, source.decode("utf-8", "replace")), versions())
    wire.start(observer.beat)
    if importlib.util.find_spec("torch") is not None:
        saver = sibling("snapshot").Saver(observer, Path(order["outbox"]), script, source)
        observer.save, observer.remember = saver.save, saver.remember
    else:
        wire.say("unsaved", "start", "the script's interpreter has no torch, which writes checkpoints")
    if order["frame_buffer"] is not None and importlib.util.find_spec("gymnasium") is not None:
        frame_buffer = Path(order["frame_buffer"])
        view = sibling("live").script_view(frame_buffer, float(order["live_budget"]), wire.say)
        view.figures = lambda: (observer.global_step, observer.episodes)
        observer.show = view.check
    if order.get("start") is not None:
        observer.warm = sibling("snapshot").WarmStart(order["start"], wire.say)
    install_signal_handlers(observer)
    code = run_as_main(script, order["argv"], observer, wire)
    run_exit_functions()
    wire.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run_as_main(script: Path, argv: list[str], observer: Observer, wire: MessageWriter) -> int:
    module = types.ModuleType("__main__")
    module.__file__ = str(script)
    sys.modules["__main__"] = module
    observer.script = module.__dict__
    sys.argv = [str(script), *argv]
    sys.dont_write_bytecode = True
    with ScriptOutcome() as ending:
        SourceFileLoader("__main__", str(script)).exec_module(module)
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    if observer.save is not None:
        observer.save(ending.state)
    wire.say("ended", ending.state, ending.error, observer.global_step, observer.episodes)
    return ending.code


def run_exit_functions() -> None:
    """What libraries have put off until the end is done: W&B writes down everything only then."""
    with ScriptOutcome():
        atexit._run_exitfuncs()


class ScriptOutcome:
    """However the script leaves its block, that is what it came to; nothing gets past it but what kills us."""

    def __init__(self) -> None:
        self.state, self.code, self.error = "finished", 0, ""

    def __enter__(self) -> ScriptOutcome:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if isinstance(error, Stopped):
            self.state, self.code = "stopped", int(str(error.code))
        elif isinstance(error, SystemExit):
            self.code = error.code if isinstance(error.code, int) else int(error.code is not None)
            if self.code:
                self.state, self.error = "failed", f"the script left with {error.code!r}"
        elif error is not None:
            sys.excepthook(kind, error, trace)  # prints it, and tells who has hung himself in there
            self.state, self.code, self.error = "failed", 1, f"{kind.__name__}: {error}"
        return True


def adapt(observer: Observer, source: str) -> list[str]:
    """What was changed for the sake of a script of that text, in words."""
    warnings.filterwarnings("ignore", message=PARSER_WARNING, module=r"tyro.*")
    done = substitute_tyro()
    if importlib.util.find_spec("gymnasium") is not None:
        done += [*sibling("compat").install(source), *sibling("videos").install_video_recording(observer)]
        sibling("probe").install(observer, is_all=False)
        sibling("vector").install(observer)
    if all(importlib.util.find_spec(name) is not None for name in ("torch", "tensorboard")):
        sibling("scalars").install(observer.say)
    return done


def set_paths(script: Path) -> None:
    """The script finds what lies beside it first, what lies above it last, and nothing of ours."""
    own = str(Path(__file__).resolve().parent)
    above = [str(folder) for folder in script.parents[1 : 1 + PARENT_LEVELS]]
    sys.path[:] = [str(script.parent), *(one for one in sys.path if one != own), *above]


def substitute_tyro() -> list[str]:
    if importlib.util.find_spec("tyro") is not None:
        return []
    sibling("tyro_substitute").install()
    return ["tyro is not installed; a small one stands in for it"]


def sibling(name: str) -> Any:
    """Those that need more than the standard library are imported when it is known to be there."""
    return importlib.import_module(f"{__package__}.{name}")


def versions() -> dict[str, str]:
    modules = {name: sys.modules.get(name) for name in ("torch", "numpy", "gymnasium")}
    found = {name: str(getattr(module, "__version__", "")) for name, module in modules.items() if module}
    return {"python": platform.python_version(), **found}


def install_signal_handlers(observer: Observer) -> None:
    """A stop waits for the next step of an environment; when none comes, or at the second signal, it is raised."""

    def stop(number: int, _frame: Any) -> None:
        if observer.stop_signal:
            raise Stopped(128 + number)
        observer.stop_signal = number
        signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS)

    def lose_patience(_number: int, _frame: Any) -> None:
        raise Stopped(128 + observer.stop_signal)

    os.environ.setdefault("SDL_NO_SIGNAL_HANDLERS", "1")  # pygame swallows SIGTERM once it has drawn
    signal.signal(signal.SIGALRM, lose_patience)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def die_with_parent(parent: int) -> None:
    """Ends the script when its parent has died."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
