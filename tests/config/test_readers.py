"""Trap 10: a key that is accepted and never read. Every field must be looked at by somebody outside config/."""

import ast
from pathlib import Path

from palaestra.config.keys import nested_model
from palaestra.config.train import TrainConfig

SOURCE = Path(__file__).parents[2] / "src" / "palaestra"
# Keys whose reader (evaluation while training) is still being built; empty when the house stands.
READ_LATER: set[str] = set()


def owned_fields(model, prefix="", owners=()):
    """Every key with the names of the models it lies in: only a file that knows one of them can mean the key."""
    owners = (*owners, model.__name__)
    for name, field in model.model_fields.items():
        nested = nested_model(field)
        yield f"{prefix}{name}", owners
        if nested is not None:
            yield from owned_fields(nested, f"{prefix}{name}.", owners)


def reads(directory):
    """(what the file knows, the name it reads) of every file outside config/ and cli/.

    A read is `section.name`, or `name` after a dot or as ["name"] in a file that knows the model by its name.
    """
    for path in directory.rglob("*.py"):
        if path.relative_to(directory).parts[0] in {"config", "cli", "api.py"}:
            continue
        nodes = list(ast.walk(ast.parse(path.read_text())))
        models = {node.id for node in nodes if isinstance(node, ast.Name)}
        models |= {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                before = getattr(node.value, "attr", getattr(node.value, "id", ""))
                yield models | {f"{before}."}, node.attr
            elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
                yield models, node.slice.value


def unread_keys(model, directory):
    found = list(reads(directory))
    unread = set()
    for path, owners in owned_fields(model):
        section, _, leaf = f"config.{path}".rpartition(".")
        wanted = {*owners, f"{section.rpartition('.')[2]}."}
        if not any(name == leaf and known & wanted for known, name in found):
            unread.add(path)
    return unread


def test_every_key_has_a_reader():
    unread = unread_keys(TrainConfig, SOURCE)
    assert unread - READ_LATER == set(), "accepted and never read"
    assert READ_LATER - unread == set(), "read by now: take them out of READ_LATER"


def test_the_audit_can_see_a_key_that_nobody_reads(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "a.py").write_text("from x import TrainConfig\nconfig.seed\n")
    (tmp_path / "room.py").write_text(
        "def use(config: TrainConfig): return config.total_steps\ndef write(config): config.torch_threads = 1\n"
    )
    (tmp_path / "stranger.py").write_text("print(spec.evaluate_interval)\n")
    unread = unread_keys(TrainConfig, tmp_path)
    assert "total_steps" not in unread
    assert {"seed", "torch_threads", "evaluate_interval", "ppo.gamma"} <= unread
