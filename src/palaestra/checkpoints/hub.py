"""A policy for the world: one folder with its weights, its sidecar and a card that says what it is."""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.checkpoints.durable import commit
from palaestra.checkpoints.files import model_name, sidecar_name
from palaestra.checkpoints.hub_client import check_repo_id, first_line, hub_client, refusals
from palaestra.checkpoints.targets import find_target
from palaestra.core.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.core.checkpoint import Checkpoint

CARD = "README.md"
ROLE_TITLES = {
    "actor_critic": "actor and critic (PPO)",
    "action_values": "action values (DQN, PQN)",
    "stochastic_actor": "stochastic actor (SAC)",
    "deterministic_actor": "deterministic actor (TD3)",
}


@dataclass(frozen=True)
class Upload:
    """What is sent: a folder, and what is in it."""

    repo_id: str
    checkpoint: Checkpoint
    folder: Path
    files: dict[str, int]  # name -> bytes
    card: str


def upload_to_hub(
    target: str | Path, repo_id: str, runs_root: Path | None = None, *, private: bool = True, token: str | None = None
) -> str:
    """Send weights, sidecar and card to `OWNER/NAME`; the trainer state stays at home. Returns the address."""
    check_repo_id(repo_id)
    hub = hub_client("Uploading to the hub")
    with pack_upload(target, repo_id, runs_root) as parcel:
        message = f"Epoch {parcel.checkpoint.epoch} of {parcel.checkpoint.run_name}"
        try:
            api = hub.HfApi(token=token)
            address = api.create_repo(repo_id, private=private, exist_ok=True)
            api.upload_folder(repo_id=repo_id, folder_path=str(parcel.folder), commit_message=message)
        except refusals() as error:
            raise RunFailed(
                f"{parcel.checkpoint.run_name} could not be sent to {repo_id}: {first_line(error)}",
                "Log in with the hub's own program, or give a token; --dry-run shows what would be sent.",
            ) from error
    return str(address)


@contextmanager
def pack_upload(target: str | Path, repo_id: str, runs_root: Path | None = None) -> Iterator[Upload]:
    """The folder as it would be sent, for as long as the block lasts. Nothing leaves this machine."""
    check_repo_id(repo_id)
    opened = find_target(target, runs_root).open()
    epoch = opened.checkpoint.epoch
    with tempfile.TemporaryDirectory(prefix="palaestra-hub-") as workshop:
        folder = Path(workshop)
        # Committed anew, so that the sidecar promises only what is sent.
        sent = commit(folder, epoch, {model_name(epoch): opened.parts[model_name(epoch)]}, opened.checkpoint)
        card = model_card(sent, repo_id)
        (folder / CARD).write_text(card, encoding="utf-8")
        files = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
        yield Upload(repo_id, sent, folder, files, card)


def model_card(checkpoint: Checkpoint, repo_id: str) -> str:
    """Markdown with the front matter that the hub reads."""
    env_id = _cell(checkpoint.env.get("id", "unknown"))
    rows = {
        "environment": env_id,
        "policy": _cell(ROLE_TITLES.get(str(checkpoint.policy.get("role", "actor_critic")), "unknown")),
        **_scores(checkpoint),
        "epoch": checkpoint.epoch,
        "agent steps": f"{checkpoint.agent_step:,}",
        "training time": f"{checkpoint.total_time:.0f} s",
        "seed": checkpoint.seed,
        "run": f"{_cell(checkpoint.run_name)} ({_cell(checkpoint.run)})",
        "git commit": _cell(checkpoint.git_commit) or "unknown",
        "versions": ", ".join(f"{_cell(name)} {_cell(one)}" for name, one in checkpoint.versions.items()) or "unknown",
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    return f"""---
library_name: palaestra
tags:
- reinforcement-learning
- palaestra
{_model_index(checkpoint)}---

# {_cell(checkpoint.run_name)}: a policy for {env_id}

| | |
|---|---|
{table}

Judge it where it lies: `palaestra eval hub:{repo_id}`. Or download `{sidecar_name(checkpoint.epoch)}` and
`{model_name(checkpoint.epoch)}` into one folder, then:

```python
import palaestra

policy = palaestra.load_policy("{sidecar_name(checkpoint.epoch)}")
action = policy.act(observation)
```

The weights are safetensors; nothing in these files is executed when they are loaded.
"""


def _scores(checkpoint: Checkpoint) -> dict[str, str]:
    """What the sidecar says: the mean return, of how many episodes, and of each simulation where there are several."""
    if checkpoint.score is None:
        return {"score": "not judged"}
    episodes = checkpoint.metrics.get("score_episodes")
    over = "" if episodes is None else f" (mean return of {episodes:.0f} episodes)"
    parts = {
        f"score in {_cell(name.removeprefix('score_'))}": f"{value:g}"
        for name, value in checkpoint.metrics.items()
        if name.startswith("score_") and name != "score_episodes"
    }
    return {"score": f"{checkpoint.score:g}{over}", **parts}


def _model_index(checkpoint: Checkpoint) -> str:
    """So that the hub itself shows the score. JSON strings are YAML strings, whatever a name contains."""
    if checkpoint.score is None:
        return ""
    name, env_id = json.dumps(checkpoint.run_name), json.dumps(str(checkpoint.env.get("id", "unknown")))
    return f"""model-index:
- name: {name}
  results:
  - task: {{type: reinforcement-learning, name: reinforcement-learning}}
    dataset: {{name: {env_id}, type: {env_id}}}
    metrics:
    - {{type: mean_reward, name: mean_reward, value: {checkpoint.score!r}}}
"""


def _cell(value: Any) -> str:
    """One line of plain text, whatever a name contains."""
    return "".join(one if one.isprintable() and one not in "|<>`[]" else " " for one in str(value)).strip()
