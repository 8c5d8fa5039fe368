"""A training as one line of JSON: what a launcher hands to each of its ranks, so that nobody parses words twice."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from palaestra.config.train import TrainConfig
from palaestra.core.run import RunRequest


@dataclass(frozen=True)
class Job:
    request: RunRequest
    config: TrainConfig
    runs_root: Path
    resume_only: bool = False
    accept_changes: frozenset[str] = frozenset()
    quiet: bool = False
    profile: bool = False
    restart: int = 0  # how often the ranks were started again by themselves

    def to_json(self) -> str:
        return json.dumps(
            {
                "request": asdict(self.request),
                "config": self.config.model_dump(mode="json"),
                "runs_root": str(self.runs_root),
                "resume_only": self.resume_only,
                "accept_changes": sorted(self.accept_changes),
                "quiet": self.quiet,
                "profile": self.profile,
                "restart": self.restart,
            },
            default=str,
        )

    @staticmethod
    def from_json(text: str) -> Job:
        data = json.loads(text)
        return Job(
            request=RunRequest(**data["request"]),
            config=TrainConfig.model_validate(data["config"]),
            runs_root=Path(data["runs_root"]),
            resume_only=data["resume_only"],
            accept_changes=frozenset(data["accept_changes"]),
            quiet=data["quiet"],
            profile=data["profile"],
            restart=data["restart"],
        )
