"""Defects of what is on disk: intervals, scores, selection, retention, documents."""

from __future__ import annotations

from traps.plant import plant

PLANTS = (
    plant(
        17,
        "what is due is asked by the remainder",
        ("training/trainer.py", "after // interval > before // interval", "after % interval == 0"),
    ),
    plant(
        18,
        "an evaluation leaves the score that stands",
        (
            "evaluation/records.py",
            "CheckpointManager(self._directory).update_metadata(epoch, score=report.mean, metrics=metrics)",
            "assert metrics",
        ),
    ),
    plant(
        18,
        "whichever checkpoint is the latest is judged, and not the one asked for",
        ("evaluation/background_worker.py", 'f"{directory.path}:{epoch}"', 'f"{directory.path}:latest"'),
    ),
    plant(
        19,
        "checkpoints that are all damaged mean to begin anew",
        (
            "checkpoints/store.py",
            "        if point is None and durable.committed_epochs(self.directory):\n",
            "        if point is None and not damaged and durable.committed_epochs(self.directory):\n",
        ),
    ),
    plant(
        20,
        "a score of 0 is none, and NaN is one",
        ("checkpoints/selection.py", "if value is not None and math.isfinite(value) else", "if value else"),
    ),
    plant(
        20,
        "epochs are ordered as text",
        (
            "checkpoints/durable.py",
            "sorted(epoch for name in names if (epoch := epoch_of_sidecar(name)) is not None)",
            "[epoch for name in sorted(names) if (epoch := epoch_of_sidecar(name)) is not None]",
        ),
    ),
    plant(
        20,
        "of equals any wins",
        (
            "checkpoints/selection.py",
            "key=lambda pair: (pair[0], pair[1].agent_step, pair[1].epoch), reverse=True",
            "key=lambda pair: -pair[0]",
        ),
    ),
    plant(
        21,
        "cleanup removes the best",
        (
            "checkpoints/retention.py",
            "    kept.update(one.epoch for one in rank_from_best(checkpoints)[:1])\n",
            "",
        ),
    ),
    plant(
        21,
        "cleanup matches nothing",
        ("checkpoints/retention.py", "return [one for one in by_epoch if one.epoch not in kept]", "return []"),
    ),
    plant(
        22,
        "the latest is the one written last",
        (
            "checkpoints/durable.py",
            "return sorted(epoch for name in names if (epoch := epoch_of_sidecar(name)) is not None)",
            (
                "found = [epoch for name in names if (epoch := epoch_of_sidecar(name)) is not None]\n"
                "    return sorted(found, key=lambda epoch: (directory / sidecar_name(epoch)).stat().st_mtime_ns)"
            ),
        ),
    ),
    plant(23, "a pickle is loaded", ("checkpoints/weights.py", "weights_only=True", "weights_only=False")),
    plant(
        24,
        "checkpoints lie one directory too deep",
        ("runs/directory.py", 'self.path / "checkpoints"', 'self.path / self.id / "checkpoints"'),
    ),
    plant(
        39,
        "a run that ended is not written down as such",
        ("runner/session.py", "        self._write(durable=True)\n", ""),
    ),
    plant(
        39,
        "a key says something else than its documentation",
        ("config/ppo.py", 'description="discount"', 'description="interest"'),
    ),
)
