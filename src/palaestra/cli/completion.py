"""`palaestra completion bash|zsh|fish`: a script that asks `palaestra --complete`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palaestra.cli.command import Command
from palaestra.core.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from argparse import Namespace

    from palaestra.cli.parser import Parser

# bash splits words at = and :, so the line is split at blanks, and the part that bash has is cut off the candidates
BASH = r"""_palaestra() {
    local line="${COMP_LINE:0:COMP_POINT}" words current kept
    read -ra words <<< "$line"
    [[ "$line" == *[[:space:]] ]] && words+=("")
    current="${words[-1]}"
    kept="${current%"${current##*[=:]}"}"
    mapfile -t COMPREPLY < <(palaestra --complete "${words[@]:1}" 2>/dev/null)
    COMPREPLY=("${COMPREPLY[@]#"$kept"}")
    [[ "${COMPREPLY[*]}" == *= ]] && compopt -o nospace
    return 0
}
complete -F _palaestra palaestra
"""

ZSH = r"""#compdef palaestra
_palaestra() {
    local -a found
    found=("${(@f)$(palaestra --complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    compadd -S '' -- ${(M)found:#*=}
    compadd -- ${found:#*=}
}
compdef _palaestra palaestra
"""

FISH = r"""complete -c palaestra -f -a '(palaestra --complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def add_arguments(parser: Parser) -> None:
    parser.add_argument("shell", help=" | ".join(SCRIPTS))


def run(arguments: Namespace) -> int:
    if arguments.shell not in SCRIPTS:
        hint = did_you_mean(arguments.shell, SCRIPTS) or f"Known: {', '.join(SCRIPTS)}."
        raise UsageError(f"No completion script for '{arguments.shell}'.", hint)
    print(SCRIPTS[arguments.shell], end="")
    return 0


COMMAND = Command(
    name="completion",
    summary='print a completion script; in bash: eval "$(palaestra completion bash)"',
    examples=("palaestra completion bash", "palaestra completion zsh", "palaestra completion fish"),
    add_arguments=add_arguments,
    run=run,
    candidates=lambda _words: list(SCRIPTS),
)
