"""Runs a script as `__main__` in this process: adapts its imports, observes it, saves its networks, reports its end."""

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
STEP_DEADLINE_SECONDS = 10  # a requested stop waits this long for the next environment step
PARENT_LEVELS = 2  # folders above the script's own that are importable: `cleanrl_utils` of a checkout
PARSER_WARNING = r"(?s).*(annotated with type|default value|does not match).*"


def run(spec: dict[str, Any]) -> None:
    """Never returns: exit handlers of the script's libraries must not change the exit code."""
    die_with_parent(int(spec["parent"]))
    writer = MessageWriter(int(spec["descriptor"]))
    observer = Observer(writer.send, float(spec["save_seconds"]))
    script = Path(spec["script"])
    source = script.read_bytes()
    set_paths(script)
    writer.send("adapted", install_adaptations(observer, source.decode("utf-8", "replace")), versions())
    writer.start(observer.send_heartbeat)
    if importlib.util.find_spec("torch") is not None:
        saver = import_sibling("snapshot").Saver(observer, Path(spec["outbox"]), script, source)
        observer.save, observer.collect_statistics = saver.save, saver.collect_statistics
    else:
        writer.send("save_failed", "start", "the script's interpreter has no torch, which writes checkpoints")
    if spec["frame_buffer"] is not None and importlib.util.find_spec("gymnasium") is not None:
        frame_buffer = Path(spec["frame_buffer"])
        view = import_sibling("live").script_view(frame_buffer, float(spec["live_budget"]), writer.send)
        view.figures = lambda: (observer.global_step, observer.episodes)
        observer.update_live_view = view.check
    if spec.get("start") is not None:
        observer.warm_start = import_sibling("snapshot").WarmStart(spec["start"], writer.send)
    install_signal_handlers(observer)
    code = run_as_main(script, spec["argv"], observer, writer)
    run_exit_functions()
    writer.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run_as_main(script: Path, argv: list[str], observer: Observer, writer: MessageWriter) -> int:
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
    writer.send("ended", ending.state, ending.error, observer.global_step, observer.episodes)
    return ending.code


def run_exit_functions() -> None:
    """Runs registered exit handlers; W&B uploads in one."""
    with ScriptOutcome():
        atexit._run_exitfuncs()


class ScriptOutcome:
    """A context that records how the script ended: state, exit code and error. Swallows every exception."""

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
                self.state, self.error = "failed", f"the script exited with {error.code!r}"
        elif error is not None:
            sys.excepthook(kind, error, trace)  # prints the traceback and runs installed hooks
            self.state, self.code, self.error = "failed", 1, f"{kind.__name__}: {error}"
        return True


def install_adaptations(observer: Observer, source: str) -> list[str]:
    """Adapts installed packages to what the script expects; returns a description of each change."""
    warnings.filterwarnings("ignore", message=PARSER_WARNING, module=r"tyro.*")
    done = install_tyro_substitute()
    if importlib.util.find_spec("gymnasium") is not None:
        done += [*import_sibling("compat").install(source), *import_sibling("videos").install_video_recording(observer)]
        import_sibling("probe").install(observer, is_all=False)
        import_sibling("probe").install_vector_probes(observer)
    if all(importlib.util.find_spec(name) is not None for name in ("torch", "tensorboard")):
        import_sibling("scalars").install(observer.send)
    return done


def set_paths(script: Path) -> None:
    """Import path of the script: its own folder first, the folders above it last, without the launcher's folder."""
    own = str(Path(__file__).resolve().parent)
    above = [str(folder) for folder in script.parents[1 : 1 + PARENT_LEVELS]]
    sys.path[:] = [str(script.parent), *(one for one in sys.path if one != own), *above]


def install_tyro_substitute() -> list[str]:
    if importlib.util.find_spec("tyro") is not None:
        return []
    import_sibling("tyro_substitute").install()
    return ["tyro is not installed; a small substitute reads the arguments"]


def import_sibling(name: str) -> Any:
    """Modules of the launcher that need more than the standard library are imported once that is known to exist."""
    return importlib.import_module(f"{__package__}.{name}")


def versions() -> dict[str, str]:
    modules = {name: sys.modules.get(name) for name in ("torch", "numpy", "gymnasium")}
    found = {name: str(getattr(module, "__version__", "")) for name, module in modules.items() if module}
    return {"python": platform.python_version(), **found}


def install_signal_handlers(observer: Observer) -> None:
    """A stop waits for the next environment step; without one in time, or at a second signal, it is raised at once."""

    def stop(number: int, _frame: Any) -> None:
        if observer.stop_signal:
            raise Stopped(128 + number)
        observer.stop_signal = number
        signal.setitimer(signal.ITIMER_REAL, STEP_DEADLINE_SECONDS)

    def stop_waiting(_number: int, _frame: Any) -> None:
        raise Stopped(128 + observer.stop_signal)

    os.environ.setdefault("SDL_NO_SIGNAL_HANDLERS", "1")  # pygame otherwise swallows SIGTERM
    signal.signal(signal.SIGALRM, stop_waiting)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def die_with_parent(parent: int) -> None:
    """Lets the kernel kill this process when its parent dies."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
