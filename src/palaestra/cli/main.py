"""The `palaestra` command: a table of verbs, of which only the requested one is imported.

Exit codes: 0 ok, 1 run failed, 2 usage, 3 not found, 4 missing extra, 5 below --min-score, 130 interrupted.
Errors of ours are one clear line; anything else is a defect of ours and keeps its traceback.
"""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from palaestra.core.errors import PalaestraError, RunFailed, UsageError, did_you_mean, escape_controls
from palaestra.core.gc_tuning import collect_rarely

if TYPE_CHECKING:
    from palaestra.cli.command import Command, Group

# verb -> (module or module:ATTRIBUTE, summary); here, so that --help imports none of the modules
VERBS: dict[str, tuple[str, str]] = {
    "train": ("palaestra.cli.train", "train an agent, or resume a run"),
    "run": ("palaestra.cli.run_tool", "RECIPE.TOOL, with train, eval, play or replay as the tool"),
    "cleanrl": ("palaestra.cli.cleanrl", "list the scripts of a CleanRL checkout"),
    "sweep": ("palaestra.cli.sweep", "search settings: grid, random or Optuna"),
    "eval": ("palaestra.cli.eval", "evaluate a checkpoint on fixed seeds"),
    "request-eval": ("palaestra.cli.request_eval", "evaluate many checkpoints on a Ray cluster"),
    "analyze": ("palaestra.cli.analyze", "compare runs: scores with intervals, learning curves, weights"),
    "video": ("palaestra.cli.video", "record videos of a policy"),
    "replay": ("palaestra.cli.replay", "show a recorded episode in the terminal"),
    "play": ("palaestra.cli.play", "play one agent with the keyboard"),
    "runs": ("palaestra.cli.runs", "list, show, stop, remove and compare runs"),
    "checkpoints": ("palaestra.cli.checkpoints", "list, show, verify, export and convert checkpoints"),
    "cluster": ("palaestra.cli.cluster", "show the nodes of a Ray cluster"),
    "worker": ("palaestra.cli.worker", "add this machine to a Ray cluster, or start one"),
    "serve": ("palaestra.cli.serve", "run the daemon: queue, API and web page"),
    "submit": ("palaestra.cli.submit", "submit a run to the daemon"),
    "top": ("palaestra.cli.top", "show the runs of the daemon live"),
    "token": ("palaestra.cli.token", "show the daemon's token, or a sign-in link"),
    "repair": ("palaestra.cli.repair", "rebuild the daemon's index from the runs"),
    "recipes": ("palaestra.cli.recipes", "list the recipes"),
    "algorithms": ("palaestra.cli.algorithms", "list the learning algorithms"),
    "config": ("palaestra.cli.config", "show all keys, a recipe's settings, the JSON schema"),
    "policies": ("palaestra.cli.policies", "list the networks and show their layers"),
    "envs": ("palaestra.cli.envs", "list the installed environments"),
    "doctor": ("palaestra.cli.doctor", "check this machine and list what is missing"),
    "convert": ("palaestra.cli.checkpoints:CONVERT_COMMAND", "convert a torch file to safetensors"),
    "completion": ("palaestra.cli.completion", "print a completion script for bash, zsh or fish"),
}
ALIASES = {"sim": "eval"}
INTERRUPTED = 130
STARTED_BY_TORCHRUN = "TORCHELASTIC_RUN_ID"
BROKEN_PIPE = 141  # 128 + SIGPIPE, as a shell reports it

EXAMPLES = ("palaestra recipes", "palaestra train cartpole --dry-run", "palaestra doctor")


def main(argv: list[str] | None = None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    if STARTED_BY_TORCHRUN in os.environ:  # at once: what is imported later takes seconds
        import_module("palaestra.runner.launcher").die_with_launcher()
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # else a lost peer fills the screen
    collect_rarely()
    try:
        text = direct_output(argv)
        if text is None:
            code = load_verb(argv[0]).main(argv[1:])
        else:
            print(text)
            code = 0
        sys.stdout.flush()
        return code
    except PalaestraError as error:
        _complain(error)
        return error.exit_code
    except BrokenPipeError:  # `palaestra runs | head`: the reader has ended; not an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        if error.errno not in {errno.EMFILE, errno.ENFILE}:
            raise
        _complain(RunFailed("Too many files are open.", "Raise the limit in this shell: ulimit -n 1024"))
        return RunFailed.exit_code
    except KeyboardInterrupt:
        print("palaestra: interrupted", file=sys.stderr)
        return INTERRUPTED


def direct_output(argv: list[str]) -> str | None:
    """The text of the help, of the version or of a completion; None for other commands."""
    if not argv or argv[0] in {"-h", "--help", "help"}:
        return help_text()
    if argv[0] in {"--version", "-V"}:
        return f"palaestra {version()}"
    if argv[0] == "--complete":
        return "\n".join(import_module("palaestra.cli.candidates").complete(argv[1:]))
    return None


def load_verb(word: str) -> Command | Group:
    verb = ALIASES.get(word, word)
    if verb not in VERBS:
        return _load_plugin_verb(word)
    module, _, name = VERBS[verb][0].partition(":")
    command: Command | Group = getattr(import_module(module), name or "COMMAND")
    return command


def plugin_verbs() -> list[str]:
    """Verbs that apps and strangers' packages bring; none is imported."""
    from palaestra.core import plugins

    return [name for name in plugins.names("commands") if name not in VERBS]


def _load_plugin_verb(word: str) -> Command:
    brought = plugin_verbs()
    if word not in brought:
        if "." in word and import_module("palaestra.cli.run_tool").is_recipe_tool(word):
            raise UsageError(f"No verb named '{word}'.", f"Write: palaestra run {word}")
        what = "flag" if word.startswith("-") else "verb"
        hint = did_you_mean(word, [*VERBS, *ALIASES, *brought]) or "'palaestra --help' lists the verbs."
        raise UsageError(f"No {what} named '{word}'.", hint)
    command: Command = import_module("palaestra.cli.command").load_command(word)
    return command


def _plugin_summaries() -> dict[str, str]:
    """One that cannot be loaded says so in its line; the help is there all the same."""
    from palaestra.core import plugins

    summaries = {}
    for name in plugin_verbs():
        try:
            summaries[name] = plugins.load("commands", name).summary
        except (PalaestraError, AttributeError) as error:
            summaries[name] = f"(cannot be loaded: {error})"
    return summaries


def help_text() -> str:
    summaries = {verb: summary for verb, (_, summary) in VERBS.items()} | _plugin_summaries()
    width = max(len(verb) for verb in summaries)
    verbs = [f"  {verb:<{width}}  {summary}" for verb, summary in summaries.items()]
    examples = [f"  {example}" for example in EXAMPLES]
    return "\n".join(
        [
            "usage: palaestra VERB [recipe | run] [key=value ...] [--flags]",
            "",
            "Train, evaluate and manage reinforcement-learning agents.",
            "Settings of an experiment are key=value, options of a command are flags.",
            "",
            "verbs:",
            *verbs,
            "",
            "'palaestra COMMAND -h' shows the help of a command. 'sim' is an alias of 'eval'.",
            "",
            "examples:",
            *examples,
        ]
    )


def version() -> str:
    from importlib.metadata import version as installed_version

    return installed_version("palaestra")


def _complain(error: PalaestraError) -> None:
    if error.user_traceback:
        print(escape_controls(f"{error.user_traceback}\n", keep="\n\t"), file=sys.stderr)
    print(escape_controls(f"palaestra: {error.message}", keep="\n\t"), file=sys.stderr)
    if error.hint:
        print(escape_controls(f"  {error.hint}", keep="\n\t"), file=sys.stderr)
