"""A policy for the world: one folder with its weights, its sidecar and a card that says what it is."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.checkpoints.durable import commit
from palaestra.checkpoints.names import model_name, sidecar_name
from palaestra.checkpoints.targets import find_target
from palaestra.contracts.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from palaestra.contracts.checkpoint import Checkpoint


def upload_to_hub(
    target: str | Path, repo_id: str, runs_root: Path | None = None, *, private: bool = True, token: str | None = None
) -> str:
    """Send weights, sidecar and card to `OWNER/NAME`; the trainer state stays at home. Returns the address."""
    if repo_id.count("/") != 1 or not all(repo_id.split("/")):
        raise UsageError(f"repo_id={repo_id} is not OWNER/NAME.")
    hub = _hub()
    opened = find_target(target, runs_root).open()
    epoch = opened.checkpoint.epoch
    with tempfile.TemporaryDirectory(prefix="palaestra-hub-") as workshop:
        folder = Path(workshop)
        # Committed anew, so that the sidecar promises only what is sent.
        sent = commit(folder, epoch, {model_name(epoch): opened.parts[model_name(epoch)]}, opened.checkpoint)
        (folder / "README.md").write_text(model_card(sent, repo_id), encoding="utf-8")
        api = hub.HfApi(token=token)
        address = api.create_repo(repo_id, private=private, exist_ok=True)
        api.upload_folder(repo_id=repo_id, folder_path=str(folder), commit_message=f"Epoch {epoch} of {sent.run_name}")
    return str(address)


def model_card(checkpoint: Checkpoint, repo_id: str) -> str:
    """Markdown with the front matter that the hub reads."""
    env_id = _cell(checkpoint.env.get("id", "unknown"))
    score = "not judged" if checkpoint.score is None else f"{checkpoint.score:g}"
    rows = {
        "environment": env_id,
        "score": score,
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
---

# {_cell(checkpoint.run_name)}: a policy for {env_id}

| | |
|---|---|
{table}

Download `{sidecar_name(checkpoint.epoch)}` and `{model_name(checkpoint.epoch)}` of {repo_id} into one folder, then:

```python
import palaestra

policy = palaestra.load_policy("{sidecar_name(checkpoint.epoch)}")
action = policy.act(observation)
```

The weights are safetensors; nothing in these files is executed when they are loaded.
"""


def _cell(value: Any) -> str:
    """One line of plain text, whatever a name contains."""
    return "".join(one if one.isprintable() and one not in "|<>`[]" else " " for one in str(value)).strip()


def _hub() -> Any:
    try:
        return importlib.import_module("huggingface_hub")
    except ModuleNotFoundError as error:
        raise MissingExtra("Uploading to the hub", "hub") from error
