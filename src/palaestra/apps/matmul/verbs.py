"""`palaestra discoveries VERB …`: imports, exports and changes schemes of files and of the archive.

Every result is verified, archived with the schemes it was made from, and compared with the best known rank.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.apps.matmul.catalogue import list_discoveries
from palaestra.apps.matmul.importing import (
    ADDITION_SECONDS,
    ImportedScheme,
    ImportSettings,
    import_files,
    parse_import_field,
)
from palaestra.apps.matmul.schemes.archive import Archive, Provenance, readable_entries
from palaestra.apps.matmul.schemes.building import build_best_start
from palaestra.apps.matmul.schemes.code_export import cpp_header, cpp_test, python_module, python_test
from palaestra.apps.matmul.schemes.composition import SIDES, extend, join_schemes, project, tensor_product
from palaestra.apps.matmul.schemes.factorization import Factorization, parse_format
from palaestra.apps.matmul.schemes.fields import Field, parse_field
from palaestra.apps.matmul.schemes.fingerprint import fingerprint
from palaestra.apps.matmul.schemes.formulas import formulas
from palaestra.apps.matmul.schemes.known_ranks import compare_with_known
from palaestra.apps.matmul.schemes.reduction import reduce_rows
from palaestra.apps.matmul.schemes.rings import can_convert, convert, holding_fields
from palaestra.apps.matmul.schemes.scheme_files import encode_scheme
from palaestra.apps.matmul.schemes.transformations import permute_sides
from palaestra.apps.matmul.schemes.verification import VerifiedFactorization, verify
from palaestra.apps.matmul.search.lifting import LiftTimeout, lift
from palaestra.apps.matmul.selection import load_scheme
from palaestra.config.overrides import split_setting
from palaestra.core.app import CommandResult
from palaestra.core.errors import UsageError, did_you_mean
from palaestra.runs.files import write_atomic
from palaestra.runs.store import runs_root

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence


@dataclass(frozen=True)
class Verb:
    run: Callable[[list[str], dict[str, str], Namespace], CommandResult]
    usage: str  # after the verb
    operands: tuple[int, int]  # fewest and most
    settings: tuple[str, ...] = ()


COMMON_FIELDS = (Field.ZT, Field.Z, Field.Q, Field.ZI, Field.QI, Field.GF2, Field.Z3)  # the strictest first
COLUMNS = ("id", "format", "field", "rank", "best known", "comparison", "new", "also valid over")
LIFT_SECONDS = 60.0
UNLIMITED = 1 << 30


def discoveries(arguments: Namespace) -> CommandResult:
    """Lists the archive, or runs a verb."""
    words: list[str] = arguments.words
    if not words or words[0] not in VERBS:
        if len(words) > 1:
            raise UsageError(
                f"No verb named '{words[0]}'.", did_you_mean(words[0], VERBS) or f"Known: {', '.join(VERBS)}."
            )
        arguments.format = words[0] if words else None
        return list_discoveries(arguments)
    verb = VERBS[words[0]]
    operands = [word for word in words[1:] if "=" not in word or Path(word).exists()]
    settings = dict(split_setting(word) for word in words[1:] if word not in operands)
    unknown = [key for key in settings if key not in verb.settings]
    fewest, most = verb.operands
    if unknown or not fewest <= len(operands) <= most:
        wrong = (
            f"'{words[0]}' has no setting '{unknown[0]}'." if unknown else f"'{words[0]}' got {len(operands)} operands."
        )
        raise UsageError(wrong, f"Usage: palaestra discoveries {words[0]} {verb.usage}")
    return verb.run(operands, settings, arguments)


def _import(operands: list[str], settings: dict[str, str], arguments: Namespace) -> CommandResult:
    is_quiet = arguments.quiet or arguments.json

    def report(scheme: ImportedScheme) -> None:
        if not is_quiet:
            print(_describe_import(scheme), file=sys.stderr)

    asked = ImportSettings(
        settings.get("source", ""),
        settings.get("license", ""),
        parse_import_field(settings.get("field", "")),
        settings.get("archive", "true") == "false",
    )
    found = import_files([Path(each) for each in operands], Archive(runs_root()), asked, report)
    proved = [scheme for scheme in found if not scheme.refusal]
    counts = Counter(scheme.field for scheme in proved)
    data: dict[str, Any] = {
        "schemes": [vars(scheme) for scheme in found],
        "proved": {field: counts[field] for field in map(str, Field) if counts[field]},
        "refused": len(found) - len(proved),
        "new": sum(scheme.is_new for scheme in found),
    }
    rows = tuple((field, count) for field, count in data["proved"].items())
    notes = (
        f"{len(found)} schemes: {len(proved)} proved, {data['new']} new in the archive, {data['refused']} refused.",
        *(f"Refused: {scheme.name}: {scheme.refusal}" for scheme in found if scheme.refusal),
    )
    return CommandResult(data, ("proved over", "schemes"), rows, notes, 1 if data["refused"] else 0)


def _describe_import(scheme: ImportedScheme) -> str:
    if scheme.refusal:
        return f"{scheme.name}: refused: {scheme.refusal}"
    known = f" (known {scheme.known})" if scheme.known is not None else ""
    is_new = "new" if scheme.is_new else "already there" if scheme.id else "not archived"
    return f"{scheme.name}: {scheme.format} {scheme.field} rank {scheme.rank}{known}, {is_new}"


def _export(operands: list[str], settings: dict[str, str], _arguments: Namespace) -> CommandResult:
    """Writes a scheme as data, formulas or code; code with a test beside it."""
    proved, digest = load_scheme(operands[0], runs_root())
    path = Path(operands[1])
    files = _exported(proved.claim, path, settings.get("library", "numpy"))
    existing = [str(file) for file in files if file.exists()]
    if existing:
        raise UsageError(f"{existing[0]} exists already.", "Choose another name.")
    for file, text in files.items():
        write_atomic(file, text)
    data = {
        "file": str(path),
        "test": str(next((file for file in files if file != path), "")),
        "format": str(proved.format),
        "field": str(proved.field),
        "fingerprint": digest,
    }
    return CommandResult(data, tuple(data), (tuple(data.values()),))


def _exported(claim: Factorization, path: Path, library: str) -> dict[Path, str]:
    test = path.with_name(f"test_{path.name}")
    if path.suffix == ".json":
        return {path: json.dumps(encode_scheme(claim)) + "\n"}
    if path.suffix == ".txt":
        return {path: "\n".join(formulas(claim)) + "\n"}
    if path.suffix == ".py":
        return {path: python_module(claim, library), test: python_test(claim, path.stem, library)}
    if path.suffix == ".hpp":
        return {path: cpp_header(claim), test.with_suffix(".cpp"): cpp_test(claim, path.name)}
    raise UsageError(f"No export as '{path.suffix}'.", "Use .json, .txt (formulas), .py or .hpp.")


def _lift(operands: list[str], settings: dict[str, str], _arguments: Namespace) -> CommandResult:
    proved, digest = load_scheme(operands[0], runs_root())
    wanted = parse_field(settings.get("field", "q"))
    deadline = time.monotonic() + float(settings.get("seconds", LIFT_SECONDS))
    try:
        lifted = lift(proved, deadline, with_fractions=wanted.has_fractions)
    except LiftTimeout as error:
        raise UsageError("The lift needs more time.", "Try a larger value of seconds.") from error
    if lifted is None:
        raise UsageError(f"The scheme over {proved.field} does not lift.", "Another scheme of that rank may.")
    if not can_convert(lifted.claim, wanted):
        raise UsageError(f"The scheme lifts to {lifted.field} only, not to {wanted}.", f"Use field={lifted.field}.")
    return _archived(lifted.claim, "lift", [digest])


def _convert(operands: list[str], settings: dict[str, str], _arguments: Namespace) -> CommandResult:
    proved, digest = load_scheme(operands[0], runs_root())
    if "field" not in settings:
        raise UsageError(
            "The field is missing.", f"Add field=…; it holds over {', '.join(holding_fields(proved.claim))}."
        )
    return _archived(convert(proved.claim, parse_field(settings["field"])), "convert", [digest])


def _reduce(operands: list[str], _settings: dict[str, str], _arguments: Namespace) -> CommandResult:
    proved, digest = load_scheme(operands[0], runs_root())
    reduced = reduce_rows(proved.claim)
    result = _archived(reduced, "reduce", [digest])
    note = f"{proved.rank - reduced.rank} of {proved.rank} rows were redundant."
    return CommandResult(result.data, result.columns, result.rows, (note, *result.notes))


def _project(operands: list[str], settings: dict[str, str], _arguments: Namespace) -> CommandResult:
    return _repeated(operands, settings, "project", project)


def _extend(operands: list[str], settings: dict[str, str], _arguments: Namespace) -> CommandResult:
    return _repeated(operands, settings, "extend", extend)


def _repeated(
    operands: list[str], settings: dict[str, str], name: str, change: Callable[[Factorization, int], Factorization]
) -> CommandResult:
    """Applies a change of one side `by` times; without `side` the one that leads to the fewest rows each time."""
    proved, digest = load_scheme(operands[0], runs_root())
    claim = proved.claim
    sides = [_parse_side(settings["side"])] if "side" in settings else range(3)
    for _ in range(_parse_count(settings.get("by", "1"))):
        possible = [change(claim, at) for at in sides if name == "extend" or claim.format.sides[at] > 1]
        if not possible:
            raise UsageError(f"{claim.format} has no side to shorten.", "A side must be at least 2.")
        claim = min(possible, key=lambda one: (one.rank / one.format.naive_rank, sum(s * s for s in one.format.sides)))
    return _archived(claim, name, [digest])


def _merge(operands: list[str], settings: dict[str, str], _arguments: Namespace) -> CommandResult:
    """Joins two schemes along a side; the second is turned so that its other two sides fit."""
    (first, one), (second, other) = (load_scheme(word, runs_root()) for word in operands)
    left, right = _in_common_field(first, second)
    sides = [SIDES[_parse_side(settings["side"])]] if "side" in settings else SIDES
    for side in sides:
        for order in sorted(set(permutations(right.format.sides)), reverse=True):
            others = [k for k in range(3) if SIDES[k] != side]
            if all(order[k] == left.format.sides[k] for k in others):
                turned = permute_sides(right, parse_format("x".join(map(str, order))))
                return _archived(join_schemes(left, turned, side), "merge", [one, other])
    raise UsageError(
        f"{left.format} and {right.format} cannot be merged along {' or '.join(sides)}.",
        "Two sides of both must be equal, in any order of the second.",
    )


def _product(operands: list[str], _settings: dict[str, str], _arguments: Namespace) -> CommandResult:
    (first, one), (second, other) = (load_scheme(word, runs_root()) for word in operands)
    left, right = _in_common_field(first, second)
    return _archived(tensor_product(left, right), "product", [one, other])


def _build(operands: list[str], settings: dict[str, str], _arguments: Namespace) -> CommandResult:
    field = parse_field(settings.get("field", "zt"))
    entries = [(entry.fingerprint, entry.scheme) for entry in readable_entries(Archive(runs_root()))]
    start = build_best_start(parse_format(operands[0]), field, entries)
    return _archived(start.scheme.claim, "build", start.parents)


def _in_common_field(
    first: VerifiedFactorization, second: VerifiedFactorization
) -> tuple[Factorization, Factorization]:
    for field in COMMON_FIELDS:
        if can_convert(first.claim, field) and can_convert(second.claim, field):
            return convert(first.claim, field), convert(second.claim, field)
    raise UsageError(f"Schemes over {first.field} and {second.field} hold over no common field.")


def _archived(claim: Factorization, method: str, parents: Sequence[str]) -> CommandResult:
    proved = verify(claim)
    now = time.time()
    provenance = Provenance("", method, 0, 0, 0.0, round(time.process_time(), 3), now, tuple(parents), origin="derived")
    entry, is_new = Archive(runs_root()).add(proved, provenance, time.monotonic() + ADDITION_SECONDS)
    known = compare_with_known(proved)
    data: dict[str, Any] = {
        "id": entry.file.stem,
        "format": str(proved.format),
        "field": str(proved.field),
        "rank": proved.rank,
        "known": known.known,
        "comparison": str(known.comparison),
        "is_new": is_new,
        "holds_over": [str(field) for field in holding_fields(proved.claim)],
        "parents": list(parents),
        "fingerprint": fingerprint(proved),
        "file": str(entry.file),
    }
    row = tuple(data[key] for key in ("id", "format", "field", "rank", "known", "comparison", "is_new"))
    return CommandResult(data, COLUMNS, ((*row, ", ".join(data["holds_over"])),))


def _parse_side(word: str) -> int:
    if word not in SIDES:
        raise UsageError(f"No side named '{word}'.", f"Known: {', '.join(SIDES)}.")
    return SIDES.index(word)


def _parse_count(word: str) -> int:
    if not word.isdigit() or not 1 <= int(word) <= 15:
        raise UsageError(f"Invalid value for by: {word}.", "It must be between 1 and 15.")
    return int(word)


VERBS = {
    "import": Verb(
        _import,
        "FILE|FOLDER… [source=TEXT] [license=TEXT] [field=FIELD] [archive=false]",
        (1, UNLIMITED),
        ("source", "license", "field", "archive"),
    ),
    "export": Verb(_export, "SCHEME FILE.json|.txt|.py|.hpp [library=numpy|torch]", (2, 2), ("library",)),
    "lift": Verb(_lift, "SCHEME [field=zt|z|q] [seconds=60]", (1, 1), ("field", "seconds")),
    "convert": Verb(_convert, "SCHEME field=FIELD", (1, 1), ("field",)),
    "reduce": Verb(_reduce, "SCHEME", (1, 1)),
    "project": Verb(_project, "SCHEME [side=rows|inner|columns] [by=1]", (1, 1), ("side", "by")),
    "extend": Verb(_extend, "SCHEME [side=rows|inner|columns] [by=1]", (1, 1), ("side", "by")),
    "merge": Verb(_merge, "SCHEME SCHEME [side=rows|inner|columns]", (2, 2), ("side",)),
    "product": Verb(_product, "SCHEME SCHEME", (2, 2)),
    "build": Verb(_build, "FORMAT [field=zt]", (1, 1), ("field",)),
}
