"""A run made of an uploaded checkpoint: finished from the first moment, with the checkpoint in its usual place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.checkpoints.durable import rewrite_sidecar
from palaestra.checkpoints.names import model_name
from palaestra.core.run import UPLOADED, RunRequest, RunState
from palaestra.runs.files import fsync_directory
from palaestra.runs.status import moved, read_written_record, write_record

if TYPE_CHECKING:
    from palaestra.runs.directory import RunDirectory
    from palaestra.runs.store import RunStore
    from palaestra.web.parcels import Parcel

RECIPE = "upload"


def settle(store: RunStore, parcel: Parcel, name: str) -> RunDirectory:
    """The weights are moved there; a failure leaves no run behind. The sidecar comes last, as always."""
    checkpoint = parcel.checkpoint
    origin = {"run": checkpoint.run, "run_name": checkpoint.run_name, "epoch": checkpoint.epoch}
    request = RunRequest(UPLOADED, RECIPE, {"origin": origin}, name, submitted_by="web")
    directory = store.create(request, _config(parcel), name or None, checkpoint.agent_step)
    try:
        parcel.weights.rename(directory.checkpoints / model_name(checkpoint.epoch))
        fsync_directory(directory.checkpoints)
        rewrite_sidecar(directory.checkpoints, checkpoint)
        _finish(directory, parcel)
    except BaseException:
        store.remove(directory.id)
        raise
    return directory


def _config(parcel: Parcel) -> dict[str, Any]:
    checkpoint = parcel.checkpoint
    return {"env": checkpoint.env, "policy": checkpoint.policy, "seed": checkpoint.seed}


def _finish(directory: RunDirectory, parcel: Parcel) -> None:
    """Nothing of it ever ran here, so that no process is named."""
    record = moved(read_written_record(directory), RunState.RUNNING)
    finished = moved(
        record,
        RunState.FINISHED,
        ended_at=record.created_at,
        updated_at=record.created_at,
        exit_code=0,
        epoch=parcel.checkpoint.epoch,
        agent_step=parcel.checkpoint.agent_step,
        summary={} if parcel.checkpoint.score is None else {"score": parcel.checkpoint.score},
    )
    write_record(directory, finished, durable=True)
