"""The JSON schema of a configuration: the web form, editors and other tools are made from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.config.train import TrainConfig

if TYPE_CHECKING:
    from pydantic import BaseModel

SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def config_schema(model_type: type[BaseModel] = TrainConfig) -> dict[str, Any]:
    """What `config.yaml` of a run may contain, with every description and default."""
    return {"$schema": SCHEMA_DIALECT, **model_type.model_json_schema(mode="validation")}
