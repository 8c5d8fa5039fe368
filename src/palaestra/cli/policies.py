"""`palaestra policies [list|show]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.cli.arguments import split_target
from palaestra.cli.command import Command, Group
from palaestra.cli.output import note, print_json, print_table
from palaestra.config.env import EnvConfig
from palaestra.config.overrides import parse_overrides
from palaestra.config.policy import PolicyConfig
from palaestra.config.resolve import resolve_config
from palaestra.core import plugins
from palaestra.core.errors import UsageError, did_you_mean
from palaestra.policies.shipped import shipped_graph, shipped_names

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from palaestra.cli.parser import Parser
    from palaestra.core.spaces import EnvInterface
    from palaestra.policies.describe import Description

SECTIONS = ("env", "policy")


def _list_arguments(parser: Parser) -> None:
    parser.add_flag("--json", action="store_true", help="print a JSON list on stdout")


def run_list(arguments: Namespace) -> int:
    """Nothing is imported for it: a graph says itself what it is, a class of another package is only named."""
    rows = [{"name": name, "kind": "graph", "summary": shipped_graph(name)["summary"]} for name in shipped_names()]
    others = [name for name in plugins.names("policies") if name not in shipped_names()]
    rows += [{"name": name, "kind": "plugin", "summary": "brought by another package"} for name in others]
    if arguments.json:
        print_json(rows)
    else:
        print_table(("policy", "kind", "what"), [(row["name"], row["kind"], row["summary"]) for row in rows])
    return 0


def _show_arguments(parser: Parser) -> None:
    parser.add_argument(
        "settings", nargs="+", metavar="NAME [env.id=…]", help="name, .yaml file, or package.module:Class"
    )
    parser.add_flag("--json", action="store_true", help="print a JSON object on stdout")


def run_show(arguments: Namespace) -> int:
    from palaestra.policies.describe import describe

    name, argv = split_target(arguments.settings)
    if not name:
        raise UsageError(
            "Which policy?", f"One of {', '.join(shipped_names())}, a .yaml file, or package.module:Class."
        )
    overrides = parse_overrides(argv)
    _refuse_other_sections(overrides)
    named = {"module": name} if ":" in name else {"graph": name}
    policy = resolve_config(PolicyConfig, PolicyConfig.model_validate(named), overrides.get("policy", {}))
    env = resolve_config(EnvConfig, None, overrides["env"]) if "env" in overrides else None
    found = describe(policy, None if env is None else interface_of_env(env), "" if env is None else env.id)
    if arguments.json:
        print_json({"policy": name, **_as_data(found)})
    else:
        _print_description(found)
    return 0


def interface_of_env(env: EnvConfig) -> EnvInterface:
    from palaestra.envs.make import make_env
    from palaestra.envs.spaces import interface_of

    made = make_env(env)
    try:
        return interface_of(made)
    finally:
        made.close()


def _refuse_other_sections(overrides: dict[str, Any]) -> None:
    for section in overrides:
        if section not in SECTIONS:
            hint = did_you_mean(section, SECTIONS) or "A policy is shown for env.…, with policy.settings.…"
            raise UsageError(f"'{section}' has no effect on a policy's layers.", hint)


def _as_data(found: Description) -> dict[str, Any]:
    return {
        "shown_for": found.shown_for,
        "weights": found.weights,
        "memory": found.memory,
        "nodes": [
            {"name": row.name, "type": row.kind, "sources": row.sources, "shape": row.shape, "weights": row.weights}
            for row in found.nodes
        ],
    }


def _print_description(found: Description) -> None:
    rows = [
        (row.name, row.kind, ", ".join(row.sources), _shape(row.shape), f"{row.weights:,}" if row.weights else "")
        for row in found.nodes
    ]
    print_table(("node", "type", "from", "shape", "weights"), [*rows, ("total", "", "", "", f"{found.weights:,}")])
    if found.memory:
        note(f"Remembers {', '.join(f'{name} {list(shape)}' for name, shape in found.memory.items())}.")
    note(f"Shown for {found.shown_for}.")


def _shape(shape: tuple[int, ...] | None) -> str:
    return "" if shape is None else str(list(shape))


def _candidates(_argv: Sequence[str]) -> list[str]:
    return sorted({*shipped_names(), *plugins.names("policies")})


LIST = Command(
    name="policies list",
    summary="networks that can be asked for by name",
    examples=("palaestra policies", "palaestra policies list", "palaestra policies list --json"),
    add_arguments=_list_arguments,
    run=run_list,
)
SHOW = Command(
    name="policies show",
    summary="show a policy's nodes, shapes and numbers of parameters",
    examples=(
        "palaestra policies show mlp",
        "palaestra policies show mlp env.id=Pendulum-v1 'policy.settings.hidden=[32]'",
        "palaestra policies show fast --json",
    ),
    add_arguments=_show_arguments,
    run=run_show,
    candidates=_candidates,
)
COMMAND = Group(
    name="policies",
    summary="list the policies and show their networks",
    actions={"list": LIST, "show": SHOW},
    default="list",
    examples=("palaestra policies", "palaestra policies show fast", "palaestra policies show mlp env.id=Acrobot-v1"),
)
