"""Requests before submission: validate, complete, parse from YAML."""

from __future__ import annotations

from typing import Any, TypedDict

from pydantic import AliasChoices, Field

from palaestra.config.yaml import dump_yaml, parse_yaml
from palaestra.core.errors import DamagedFile
from palaestra.core.run import RunRequest
from palaestra.core.worker_kind import FieldError, HasDynamicSchema, RequestRefused
from palaestra.daemon.run_entry import SubmissionOptions
from palaestra.daemon.worker_kinds import shell_command
from palaestra.web.endpoints import Call, Endpoint
from palaestra.web.request_parsing import Body
from palaestra.web.resources.recipes import default_values
from palaestra.web.responses import HttpError
from palaestra.web.security.authentication import CREDENTIAL_KEY

MAX_YAML_LENGTH = 1 << 17  # ten times the longest config; parsing 1 MiB takes seconds


class LimitsBody(Body):
    memory: int = Field(default=0, ge=0, le=1 << 31, description="MB; a run that exceeds it is stopped; 0: no limit")
    log: int | None = Field(default=None, ge=1 << 12, le=1 << 30, description="maximum bytes of stored output")
    grace: float | None = Field(default=None, ge=0, le=86_400, description="seconds between a stop and the kill")


class RunBody(Body):
    """The body of a submission, the same for browser, command line and Python."""

    kind: str = Field("native", max_length=80, description="worker kind")
    recipe: str = Field("", max_length=200, description="name; empty: the defaults")
    config: dict[str, Any] = Field(default_factory=dict, description="settings that override the recipe, nested")
    name: str = Field("", max_length=200, description="empty: a generated name")
    executor: str = Field("local", max_length=80, description="what starts its processes")
    nproc: int = Field(1, ge=1, le=4096, description="number of training processes")
    priority: int = Field(0, ge=-1000, le=1000, description="higher starts first")
    limits: LimitsBody = LimitsBody()
    submitted_by: str = Field(
        "",
        max_length=80,
        pattern=r"^[\w .:@+-]*$",
        description="empty: how the caller signed in",
        validation_alias=AliasChoices("submitted_by", "asked_by"),  # asked_by: the name until 0.1
    )
    command: str = Field("", max_length=20_000, description="the command line of the request; empty: generated")

    def request(self, submitted_by: str) -> RunRequest:
        by = self.submitted_by or submitted_by
        return RunRequest(self.kind, self.recipe, self.config, self.name, by, self.command, self.executor, self.nproc)

    def options(self) -> SubmissionOptions:
        return SubmissionOptions(self.priority, self.limits.memory, self.limits.grace, self.limits.log)


class YamlBody(Body):
    yaml: str = Field(max_length=MAX_YAML_LENGTH)


class CheckedRequest(TypedDict):
    errors: list[FieldError]
    config: dict[str, Any] | None  # complete; null when there are errors
    yaml: str
    command: str  # the equivalent command line


class ParsedRequest(TypedDict):
    config: dict[str, Any]


def sign_in_method(call: Call) -> str:
    """Returns "web" for a browser with a cookie, "api" for a token."""
    return "web" if call.request.scope.get(CREDENTIAL_KEY) == "cookie" else "api"


def validate_request(call: Call) -> CheckedRequest:
    """Validates a request; errors are part of the response, not of its status."""
    body: RunBody = call.body
    request, kinds = body.request(sign_in_method(call)), call.context.daemon.kinds
    try:
        prepared = call.context.daemon.check(request, body.options())
    except RequestRefused as refused:
        listed = list(refused.field_errors)
        return {"errors": listed, "config": None, "yaml": "", "command": shell_command(kinds, request)}
    command = shell_command(kinds, prepared.request, prepared.config)
    kind, config = kinds.get(request.kind), prepared.config
    if isinstance(kind, HasDynamicSchema):  # a form shows the settings of the request, not the resolved config
        config = {**default_values(kind.schema_of(prepared.request.config)), **prepared.request.config}
    return {"errors": [], "config": config, "yaml": dump_yaml(config), "command": command}


def parse_request(call: Call) -> ParsedRequest:
    try:
        config = parse_yaml(call.body.yaml, "this YAML")
    except DamagedFile as error:
        raise HttpError(422, error.message, error.hint, [FieldError("yaml", error.message)]) from error
    if config is None:
        return {"config": {}}
    if not isinstance(config, dict):
        message = "The YAML is not a mapping of keys to values."
        raise HttpError(422, message, "For example: total_steps: 1000000", [FieldError("yaml", message)])
    return {"config": config}


ROUTES = (
    Endpoint(
        "POST",
        "/api/requests/check",
        validate_request,
        "validate a request",
        body=RunBody,
        response=CheckedRequest,
    ),
    Endpoint("POST", "/api/requests/parse", parse_request, "settings from YAML", body=YamlBody, response=ParsedRequest),
)
