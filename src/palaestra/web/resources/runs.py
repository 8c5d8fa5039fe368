"""Runs: show, submit, change, stop, evaluate, compare and remove."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from pydantic import Field

from palaestra.config.resolve import merge
from palaestra.core.run import RunRequest
from palaestra.daemon.run_entry import MAX_PRIORITY
from palaestra.runs.annotations import LONGEST_NOTE, Annotations, check_tags
from palaestra.runs.documents import ABSENT, diff_configs, read_config, read_request
from palaestra.web.endpoints import Call, Endpoint
from palaestra.web.request_parsing import Body, Query
from palaestra.web.resources.requests import RunBody, sign_in_method
from palaestra.web.resources.run_data import OneRun, RunDetail, describe_details, describe_run

if TYPE_CHECKING:
    from palaestra.daemon.run_entry import RunEntry
    from palaestra.runs.documents import Difference
    from palaestra.web.context import AppContext

WRITING, QUEUING = (409, 507), (409, 503, 507)  # additional error statuses


class ChangeBody(Body):
    tags: list[str] | None = Field(None, max_length=100, description="all tags, replacing the present ones")
    note: str | None = Field(None, max_length=LONGEST_NOTE, description="free text")
    priority: int | None = Field(
        None, ge=-MAX_PRIORITY, le=MAX_PRIORITY, description="of a queued run; higher starts first"
    )


class CloneBody(Body):
    name: str = Field("", max_length=200, description="of the new run; empty: a generated name")
    config: dict[str, Any] = Field(default_factory=dict, description="settings to override, nested")


class StopBody(Body):
    grace_seconds: float | None = Field(None, ge=0, le=86_400, description="before its processes are killed")


class EvaluateBody(Body):
    selector: str = Field("best", pattern=r"^(best|latest|[0-9]{1,9})$", description="best, latest or an epoch")
    suite: str = Field("", pattern=r"^[A-Za-z0-9_+-]*(\.[A-Za-z0-9_+-]+)*$", max_length=200, description="by name")
    episodes: int | None = Field(None, ge=1, le=1_000_000)
    repeat: bool = False
    video: bool = False
    replays: bool = Field(default=False, description="record each episode, where the environment can be replayed")
    deterministic: bool | None = None
    seed: int | None = Field(None, ge=0, lt=1 << 32, description="of the first episode; null: that of the suite")
    overrides: dict[str, Any] = Field(default_factory=dict, description="settings of the environment")
    name: str = Field("", max_length=200)


def show_run(call: Call) -> RunDetail:
    return describe_details(call.context, call.entry())


def submit_run(call: Call) -> OneRun:
    body: RunBody = call.body
    entry = call.context.daemon.submit(body.request(sign_in_method(call)), body.options())
    return {"run": describe_run(call.context, entry)}


def change_run(call: Call) -> OneRun:
    body: ChangeBody = call.body
    context, entry, directory = call.context, call.entry(), call.directory()
    if body.priority is not None:
        entry = context.daemon.prioritise(entry.id, body.priority)
    if body.tags is not None or body.note is not None:
        old = context.run_facts.annotations(directory)
        tags = old.tags if body.tags is None else check_tags(body.tags)
        context.run_facts.annotate(
            directory, replace(old, tags=tags, note=old.note if body.note is None else body.note)
        )
        context.daemon.events.publish("changed", entry.id, entry)
    return {"run": describe_run(context, entry)}


def stop_run(call: Call) -> OneRun:
    return {"run": describe_run(call.context, call.context.daemon.stop(call.entry().id, call.body.grace_seconds))}


def cancel_run(call: Call) -> OneRun:
    return {"run": describe_run(call.context, call.context.daemon.cancel(call.entry().id))}


def retry_run(call: Call) -> OneRun:
    return {"run": describe_run(call.context, call.context.daemon.retry(call.entry().id))}


def clone_run(call: Call) -> OneRun:
    body: CloneBody = call.body
    source = call.entry()
    original = read_request(call.directory()).config
    config = merge(None, original, body.config)
    entry = call.context.daemon.clone(source.id, body.name, config, submitted_by=sign_in_method(call))
    return _with_parent(call.context, entry, source.id)


def rerun_latest(call: Call) -> OneRun:
    return {"run": describe_run(call.context, call.context.daemon.rerun_latest(submitted_by=sign_in_method(call)))}


def evaluate_run(call: Call) -> OneRun:
    body: EvaluateBody = call.body
    source = call.entry()
    config: dict[str, Any] = {"target": f"{source.id}:{body.selector}", "repeat": body.repeat, "video": body.video}
    options = {
        "suite": body.suite or None,
        "replays": body.replays or None,
        "seed": body.seed,
        "episodes": body.episodes,
        "deterministic": body.deterministic,
        "env": body.overrides or None,
    }
    config |= {key: value for key, value in options.items() if value is not None}
    label = f"{source.record.name}:{body.selector}"  # more readable than the id in `target`
    request = RunRequest("evaluate", label, config, body.name, sign_in_method(call))
    return _with_parent(call.context, call.context.daemon.submit(request), source.id)


def remove_run(call: Call) -> None:
    removed = call.context.daemon.remove(call.entry().id)
    call.context.run_facts.invalidate(removed.id)


def _with_parent(context: AppContext, entry: RunEntry, parent: str) -> OneRun:
    directory = context.daemon.directory(entry.id)
    context.run_facts.annotate(directory, Annotations(parent=parent))
    return {"run": describe_run(context, entry)}


class DiffQuery(Query):
    other: str = Field(min_length=1, max_length=200, description="the run to compare with")


class ConfigDifference(TypedDict):
    key: str
    here: Any
    there: Any
    only: Literal["here", "there", ""]  # which of the two has the key; empty: both


class ConfigDifferences(TypedDict):
    here: str
    there: str
    differences: list[ConfigDifference]


def show_differences(call: Call) -> ConfigDifferences:
    here, there = call.directory(), call.context.daemon.directory(call.query.other)
    found = diff_configs(read_config(here), read_config(there))
    return {"here": here.id, "there": there.id, "differences": [_describe_difference(one) for one in found]}


def _describe_difference(one: Difference) -> ConfigDifference:
    """Describes a difference; `only` distinguishes a missing key from null."""
    only: Literal["here", "there", ""] = "there" if one.old is ABSENT else "here" if one.new is ABSENT else ""
    here, there = (None if value is ABSENT else value for value in (one.old, one.new))
    return {"key": one.key_path, "here": here, "there": there, "only": only}


ROUTES = (
    Endpoint(
        "POST", "/api/runs", submit_run, "submit a run", body=RunBody, response=OneRun, status=201, errors=QUEUING
    ),
    Endpoint(
        "POST",
        "/api/rerun",
        rerun_latest,
        "submit the latest request again",
        response=OneRun,
        status=201,
        errors=QUEUING,
    ),
    Endpoint("GET", "/api/runs/{id}", show_run, "one run, with request, config and failure", response=RunDetail),
    Endpoint(
        "PATCH",
        "/api/runs/{id}",
        change_run,
        "change tags, note and priority",
        body=ChangeBody,
        response=OneRun,
        errors=(409, 507),
    ),
    Endpoint("DELETE", "/api/runs/{id}", remove_run, "delete a run that is over", status=204, errors=WRITING),
    Endpoint(
        "POST",
        "/api/runs/{id}/stop",
        stop_run,
        "stop a run, and kill its process tree after a grace period",
        body=StopBody,
        is_body_optional=True,
        response=OneRun,
        errors=(409, 507),
    ),
    Endpoint(
        "POST",
        "/api/runs/{id}/cancel",
        cancel_run,
        "remove a run from the queue, or stop it",
        response=OneRun,
        errors=WRITING,
    ),
    Endpoint(
        "POST",
        "/api/runs/{id}/retry",
        retry_run,
        "continue a run that is over",
        response=OneRun,
        errors=QUEUING,
    ),
    Endpoint(
        "POST",
        "/api/runs/{id}/clone",
        clone_run,
        "submit the same request as a new run",
        body=CloneBody,
        is_body_optional=True,
        response=OneRun,
        status=201,
        errors=QUEUING,
    ),
    Endpoint(
        "POST",
        "/api/runs/{id}/evaluate",
        evaluate_run,
        "evaluate a checkpoint",
        body=EvaluateBody,
        is_body_optional=True,
        response=OneRun,
        status=201,
        errors=QUEUING,
    ),
    Endpoint(
        "GET",
        "/api/runs/{id}/diff",
        show_differences,
        "differences to the config of another run",
        DiffQuery,
        response=ConfigDifferences,
        errors=(409,),
    ),
)
