"""What the documentation says is so: commands parse, links lead somewhere, keys are all there, Python imports."""

from __future__ import annotations

import ast
import importlib
import os
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from palaestra.cli.candidates import show
from palaestra.cli.command import Group
from palaestra.cli.eval import parse_eval_arguments
from palaestra.cli.main import load_verb, main
from palaestra.config.keys import list_keys
from palaestra.config.library_names import translate_key
from palaestra.config.recipes.registry import recipe_names
from palaestra.config.train import TrainConfig
from palaestra.core import errors
from palaestra.loggers.status import RunHeader, StatusTracker
from palaestra.loggers.status_table import status_table

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
FOREIGN = {
    "docker",
    "kubectl",
    "sbatch",
    "scp",
    "source",
    "tensorboard",
    "wandb",
}  # programs of others that a reader may be told to run


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, *languages: str) -> list[str]:
    return [body for language, body in BLOCK.findall(page.read_text()) if language in languages]


def commands(block: str) -> list[list[str]]:
    """Lines that begin with `$`; in a block without any, all lines. Words as a shell would see them."""
    lines = [line for line in block.splitlines() if line.strip()]
    typed = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")] or lines
    return [words for line in typed if (words := shlex.split(line, comments=True))]


ALL_COMMANDS = [
    pytest.param(words, id=f"{name_of(page)}: {shlex.join(words)}")
    for page in PAGES
    for block in blocks(page, "console", "bash", "sh", "shell")
    for words in commands(block)
]


def check_command(words: list[str]) -> None:
    """Raise, or fail an assertion, when the command would not be understood."""
    while re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words = words[1:]
    program, *rest = words
    match program:
        case "palaestra":
            check_palaestra(rest)
        case "torchrun":
            check_palaestra(rest[rest.index("palaestra") + 1 :])
        case "make":
            assert set(rest) <= make_targets(), f"no such target: {rest}"
        case "pip":
            check_extras(rest)
        case "python":
            assert (ROOT / rest[0]).is_file(), rest[0]
        case _:
            assert program in FOREIGN, f"what is '{program}'?"


def check_palaestra(words: list[str]) -> None:
    verb = load_verb(words[0])
    if "-h" in words or "--help" in words:
        assert main(words) == 0
    elif words[0] == "train":
        assert main([*words, "--dry-run"]) == 0
    elif isinstance(verb, Group):
        action = words[1] if len(words) > 1 and words[1] in verb.actions else verb.default
        verb.actions[action].parser().parse([word for word in words[1:] if word != action])
    else:
        arguments = verb.parser().parse(words[1:])
        if words[0] in {"eval", "sim"}:
            parse_eval_arguments(arguments.settings)


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def check_extras(words: list[str]) -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for word in words:
        for extra in re.findall(r"\[([^\]]+)\]", word):
            assert set(extra.split(",")) <= set(known), f"no such extra: {extra}"


def key_tables() -> dict[str, list[str]]:
    """Rows as docs/configuration.md should have them, by the heading they stand under."""
    tables: dict[str, list[str]] = {}
    for key in list_keys(TrainConfig):
        heading = key.path.partition(".")[0] if "." in key.path or key.is_section else "general"
        cells = (f"`{key.path}`", key.accepts, f"`{show(key.default)}`", key.description)
        row = "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
        tables.setdefault(heading, []).append(row)
    return tables


def with_key_tables(page: str) -> str:
    """The page with every table of keys written anew; a section without a heading gets one at the end."""
    for heading, rows in key_tables().items():
        table = re.compile(
            rf"(?<=^### {heading}\n)(.*?\|---\|---\|---\|---\|\n)(?:\| `[^\n]*\n)*", re.MULTILINE | re.DOTALL
        )
        if not table.search(page):
            page += f"\n### {heading}\n\n| key | type | default | meaning |\n|---|---|---|---|\n"
        page = table.sub(lambda found, rows=rows: found[1] + "".join(rows), page, count=1)
    return page


@pytest.mark.parametrize("words", ALL_COMMANDS)
def test_every_command_in_the_documentation_is_understood(words, tmp_path, monkeypatch):
    monkeypatch.setenv("PALAESTRA_RUNS_DIR", str(tmp_path / "runs"))
    check_command(words)
    assert not (tmp_path / "runs").exists()


def test_the_readme_shows_the_two_commands_and_more():
    shown = [words for block in blocks(ROOT / "README.md", "console") for words in commands(block)]
    assert ["make", "demo"] in shown
    assert ["make", "test"] in shown
    assert any(words[:2] == ["palaestra", "train"] for words in shown)


@pytest.mark.parametrize(
    "planted",
    [
        "palaestra trian cartpole",
        "palaestra train cartpol",
        "palaestra train cartpole totl_steps=5",
        "palaestra train cartpole --dryrun",
        "palaestra runs shwo first",
        "palaestra eval first --epsiodes 3",
        "make demmo",
        "pip install 'palaestra[mujocoo]'",
        "python examples/nothing.py",
        "curl somewhere",
    ],
)
def test_a_wrong_command_would_be_seen(planted):
    with pytest.raises((errors.PalaestraError, AssertionError)):
        check_command(shlex.split(planted))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_between_pages_leads_somewhere(page):
    targets = [link.partition("#")[0] for link in LINK.findall(page.read_text()) if "://" not in link]
    missing = [target for target in targets if target and not (page.parent / target).exists()]
    assert missing == []


def test_every_page_of_the_documentation_can_be_reached_from_its_index():
    docs = ROOT / "docs"
    seen, waiting = set(), [docs / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        links = LINK.findall(page.read_text())
        waiting += [(page.parent / link.partition("#")[0]).resolve() for link in links if "://" not in link]
    results = set(
        (docs / "benchmarks").glob("*.md")
    )  # written by the scripts, possibly half way; linked once committed
    assert sorted(map(name_of, set(docs.rglob("*.md")) - results - seen)) == []


def test_every_key_is_documented_as_it_is_and_no_other():
    page = ROOT / "docs" / "configuration.md"
    if os.environ.get("PALAESTRA_WRITE_DOCS"):
        page.write_text(with_key_tables(page.read_text()))
    text = page.read_text()
    assert text == with_key_tables(text), "write the tables anew with: make keys"
    rows = [line for line in text.splitlines(keepends=True) if line.startswith("| `")]
    assert sorted(rows) == sorted(row for table in key_tables().values() for row in table)


def test_a_key_that_is_missing_or_not_there_any_more_is_seen():
    text = (ROOT / "docs" / "configuration.md").read_text()
    row = next(line for line in text.splitlines(keepends=True) if line.startswith("| `ppo.gamma`"))
    for planted in (text.replace(row, ""), text.replace(row, row + "| `ppo.gama` | number | `1` | a slip |\n")):
        assert with_key_tables(planted) == with_key_tables(text) != planted


def test_writing_the_tables_anew_leaves_the_prose_alone():
    text = (ROOT / "docs" / "configuration.md").read_text()

    def prose(page: str) -> list[str]:
        return [line for line in page.splitlines() if not line.startswith("|")]

    assert prose(with_key_tables(text))[: len(prose(text))] == prose(text)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_in_the_documentation_parses_and_its_imports_exist(page):
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("palaestra"):
                module = importlib.import_module(node.module)
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []


def test_the_exit_codes_are_those_of_the_errors():
    text = (ROOT / "docs" / "first-run.md").read_text()
    documented = {int(code) for code in re.findall(r"^\| (\d) \|", text, re.MULTILINE)}
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert documented == {0, *(kind.exit_code for kind in kinds)}


def test_the_picture_in_the_readme_has_the_rows_of_the_real_table():
    (picture,) = [body for body in blocks(ROOT / "README.md", "text") if "╭" in body]
    real = status_table(StatusTracker(RunHeader("first", "cartpole", 100_000, Path("runs/x"))).status()).plain
    labels = re.compile(r"[a-z][a-zA-Z/]*(?: [A-Za-z]+)?(?=\s{2,})|ETA")
    assert len(picture.splitlines()) == len(real.splitlines())
    for shown, drawn in zip(picture.splitlines()[2:-2], real.splitlines()[2:-2], strict=True):
        assert [part for part in labels.findall(drawn) if part not in shown] == []


def test_the_readme_counts_the_recipes_right():
    assert f"{len(recipe_names())} recipes" in (ROOT / "README.md").read_text()


NAME_ROW = re.compile(r"^\| `(\w+)` \| `([\w.]+)` \|", re.MULTILINE)


@pytest.mark.parametrize("page", ["coming-from-sb3.md", "coming-from-cleanrl.md"])
def test_names_of_other_libraries_are_mapped_as_the_error_messages_map_them(page):
    rows = NAME_ROW.findall((ROOT / "docs" / page).read_text())
    assert len(rows) > 15
    different = [
        (theirs, ours)
        for theirs, ours in rows
        if f"called {ours}." not in translate_key(theirs, ours.partition(".")[0])
    ]
    assert different == []
    keys = {"run", *(key.path for key in list_keys(TrainConfig))}
    assert [ours for _, ours in rows if ours not in keys] == []
