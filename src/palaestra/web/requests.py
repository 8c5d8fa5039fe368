"""Requests before they become runs: checked, completed, read from YAML."""

from __future__ import annotations

import json
import shlex
from typing import Any

from pydantic import Field

from palaestra import plugins
from palaestra.config.yaml_text import dump_yaml, parse_yaml
from palaestra.contracts.errors import DamagedFile
from palaestra.contracts.run import RunRequest
from palaestra.contracts.worker_kind import Complaint, RequestRefused, TellsSchema
from palaestra.daemon.ticket import Terms
from palaestra.web.errors import Refusal, error_data
from palaestra.web.reading import Body
from palaestra.web.route import Call, Endpoint
from palaestra.web.schema_keys import default_values
from palaestra.web.security import SCOPE_KEY

LONGEST_YAML = 1 << 17  # ten times the longest config; reading a mebibyte of it takes seconds
VERBS = {"native": "train", "evaluate": "eval"}
BARE_WORDS = {"matmul": ("discover", "format")}  # kinds whose verb takes one of their settings as a word of its own
KINDS = "workers"  # the group of plugins


class LimitsBody(Body):
    memory: int = Field(default=0, ge=0, le=1 << 31, description="MB; a run that takes more is ended; 0: no limit")
    log: int | None = Field(default=None, ge=1 << 12, le=1 << 30, description="bytes of output that are kept")
    grace: float | None = Field(default=None, ge=0, le=86_400, description="seconds between a stop and the kill")


class RunBody(Body):
    """What may be asked: the same from browser, command line, Python and elsewhere."""

    kind: str = Field("native", max_length=80, description="worker kind")
    recipe: str = Field("", max_length=200, description="by name; empty: the defaults")
    config: dict[str, Any] = Field(default_factory=dict, description="settings laid over the recipe, nested")
    name: str = Field("", max_length=200, description="empty: a nickname")
    executor: str = Field("local", max_length=80, description="who places its processes")
    nproc: int = Field(1, ge=1, le=4096, description="processes that train together")
    priority: int = Field(0, ge=-1000, le=1000, description="higher goes first")
    limits: LimitsBody = LimitsBody()
    asked_by: str = Field("", max_length=80, pattern=r"^[\w .:@+-]*$", description="empty: how the caller signed in")
    command: str = Field("", max_length=20_000, description="the command line that it came from")

    def request(self, asked_by: str) -> RunRequest:
        request = RunRequest(
            self.kind, self.recipe, self.config, self.name, self.asked_by or asked_by, "", self.executor, self.nproc
        )
        return RunRequest(**{**vars(request), "command": self.command or command_of(request)})

    def terms(self) -> Terms:
        return Terms(self.priority, self.limits.memory, self.limits.grace, self.limits.log)


class YamlBody(Body):
    yaml: str = Field(max_length=LONGEST_YAML)


def asked_by(call: Call) -> str:
    """How whoever calls has signed in."""
    return "web" if call.request.scope.get(SCOPE_KEY) == "cookie" else "api"


def check_request(call: Call) -> dict[str, Any]:
    """Never refused for its values: what is wrong is the answer."""
    body: RunBody = call.body
    request = body.request(asked_by(call))
    try:
        prepared = call.house.daemon.check(request, body.terms())
    except RequestRefused as refused:
        listed = error_data("", fields=refused.complaints)["error"]["fields"]
        return {"errors": listed, "config": None, "yaml": "", "command": request.command}
    kind, config = call.house.daemon.kinds.get(request.kind), prepared.config
    if isinstance(kind, TellsSchema):  # its config is what it made of the request; a form speaks of the request
        config = {**default_values(kind.schema_of(prepared.request.config)), **prepared.request.config}
    return {"errors": [], "config": config, "yaml": dump_yaml(config), "command": command_of(prepared.request)}


def parse_request(call: Call) -> dict[str, Any]:
    try:
        config = parse_yaml(call.body.yaml, "this YAML")
    except DamagedFile as error:
        raise Refusal(422, error.message, error.hint, [Complaint("yaml", error.message)]) from error
    if config is None:
        return {"config": {}}
    if not isinstance(config, dict):
        message = "This YAML is no mapping of keys to values."
        raise Refusal(422, message, "For example: total_steps: 1000000", [Complaint("yaml", message)])
    return {"config": config}


def command_of(request: RunRequest) -> str:
    """The command line that would do the same without a daemon."""
    words = ["palaestra", *_verb(request)]
    words += [f"run={request.name}"] if request.name else []
    bare = BARE_WORDS.get(request.kind, ("", ""))[1]
    words += [f"{key}={_value(value)}" for key, value in _leaves(request.config, "") if key != bare]
    words += [f"nproc={request.nproc}"] if request.nproc > 1 else []
    words += [f"executor={request.executor}"] if request.executor != "local" else []
    return shlex.join(words)


def _verb(request: RunRequest) -> list[str]:
    """Other kinds are trained by their name; what they call their recipe they find out themselves."""
    if request.kind in BARE_WORDS:
        verb, key = BARE_WORDS[request.kind]
        return [verb, str(request.config[key])] if key in request.config else [verb]
    if request.kind in VERBS:
        return [VERBS[request.kind], *([request.recipe] if request.recipe else [])]
    return ["train", request.kind] if request.kind in plugins.names(KINDS) else ["submit", f"--kind={request.kind}"]


def _leaves(config: dict[str, Any], prefix: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in config.items():
        path = f"{prefix}{key}"
        found += _leaves(value, f"{path}.") if isinstance(value, dict) and value else [(path, value)]
    return found


def _value(value: Any) -> str:
    """As YAML on a command line; JSON is YAML. A plain word needs no quotes."""
    if isinstance(value, str) and value and value.replace("_", "a").replace("-", "a").isalnum() and value[0].isalpha():
        is_word = value.lower() not in {"null", "true", "false", "yes", "no", "on", "off"}
        return value if is_word else json.dumps(value)
    return json.dumps(value, ensure_ascii=False)


FIELD_SCHEMA = {
    "type": "object",
    "properties": {"key": {"type": "string"}, "message": {"type": "string"}, "hint": {"type": "string"}},
}
CHECK_SCHEMA = {
    "type": "object",
    "required": ["errors", "config", "yaml", "command"],
    "properties": {
        "errors": {"type": "array", "items": FIELD_SCHEMA},
        "config": {"type": ["object", "null"]},
        "yaml": {"type": "string"},
        "command": {"type": "string"},
    },
}
PARSE_SCHEMA = {"type": "object", "required": ["config"], "properties": {"config": {"type": "object"}}}
ROUTES = (
    Endpoint(
        "POST", "/api/requests/check", check_request, "what is wrong with a request", body=RunBody, answer=CHECK_SCHEMA
    ),
    Endpoint("POST", "/api/requests/parse", parse_request, "settings from YAML", body=YamlBody, answer=PARSE_SCHEMA),
)
