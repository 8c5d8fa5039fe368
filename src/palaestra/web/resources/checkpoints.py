"""Checkpoints of a run: list, inspect and download. No tensor is loaded."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

from pydantic import Field

from palaestra.checkpoints.durable import (
    check_sizes,
    committed_epochs,
    read_checked,
    read_sidecar,
    retry_while_replaced,
)
from palaestra.checkpoints.files import model_name, open_regular_file, sidecar_name
from palaestra.checkpoints.safetensors_header import LENGTH_BYTES, MAX_HEADER_BYTES, read_header
from palaestra.checkpoints.selection import RefusedCheckpoint, Survey, parse_selector, rank_from_best
from palaestra.core.errors import DamagedFile, NotFound, UsageError
from palaestra.runs.documents import read_config
from palaestra.web.endpoints import Call, Endpoint
from palaestra.web.request_parsing import Query
from palaestra.web.resources.checkpoint_zip import CheckpointArchive

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from starlette.responses import Response

    from palaestra.checkpoints.safetensors_header import TensorInfo
    from palaestra.core.checkpoint import Checkpoint
    from palaestra.runs.directory import RunDirectory
    from palaestra.web.context import AppContext

MAX_EPOCH_DIGITS = 18
SERVICE = "sidecars"
MAX_CACHED = 5000  # at most about 10 KB each


class TargetQuery(Query):
    target: str = Field(min_length=1, max_length=300, description="RUN, RUN:best, RUN:latest or RUN:EPOCH")


class CheckpointSummary(TypedDict):
    epoch: int
    agent_step: int
    score: float | None
    avg_reward: float | None
    created_at: float
    total_time: float | None
    run: str
    run_name: str
    bytes: int
    metrics: dict[str, float | None]
    git_commit: str


class ListedCheckpoint(CheckpointSummary):
    is_best: bool
    is_latest: bool


class RefusedFile(TypedDict):
    file: str
    reason: str


class CheckpointList(TypedDict):
    checkpoints: list[ListedCheckpoint]
    refused: list[RefusedFile]


class Normalisers(TypedDict):
    observations: bool
    returns: bool
    copies: int  # of a script: one for each environment


class Tensor(TypedDict):
    name: str
    dtype: str
    shape: list[int]


class InspectedCheckpoint(TypedDict):
    target: str  # RUN:EPOCH
    checkpoint: CheckpointSummary
    env: dict[str, Any]
    policy: dict[str, Any]
    interface: dict[str, Any]
    seed: int
    normalisers: Normalisers
    suite: Any
    versions: dict[str, str]
    tensors: list[Tensor]


def list_checkpoints(call: Call) -> CheckpointList:
    """Lists checkpoints from the oldest to the newest, and damaged ones with the reason."""
    directory = call.directory().checkpoints
    found = sidecar_cache(call.context).survey(directory)
    best = next(iter(rank_from_best(found.checkpoints)), None)
    latest = found.checkpoints[-1] if found.checkpoints else None
    return {
        "checkpoints": [
            {**describe(one), "is_best": one is best, "is_latest": one is latest} for one in found.checkpoints
        ],
        "refused": [{"file": one.path.name, "reason": one.reason} for one in found.refused],
    }


def download_checkpoint(call: Call) -> Response:
    return CheckpointArchive(call.directory(), _epoch(call.path["epoch"]), call.request)


def inspect_checkpoint(call: Call) -> InspectedCheckpoint:
    """Returns everything known about a checkpoint without running it."""
    run, separator, selector = call.query.target.partition(":")
    directory = call.context.daemon.directory(run)
    checkpoint = select(sidecar_cache(call.context), directory.checkpoints, selector if separator else "latest")
    tensors = read_tensors(directory.checkpoints / model_name(checkpoint.epoch))
    return {
        "target": f"{directory.id}:{checkpoint.epoch}",
        "checkpoint": describe(checkpoint),
        "env": checkpoint.env,
        "policy": checkpoint.policy,
        "interface": checkpoint.interface,
        "seed": checkpoint.seed,
        "normalisers": describe_normalisers(tensors),
        "suite": _suite(directory),
        "versions": checkpoint.versions,
        "tensors": [{"name": name, "dtype": one.dtype, "shape": list(one.shape)} for name, one in tensors.items()],
    }


def describe_normalisers(tensor_names: Iterable[str]) -> Normalisers:
    """Returns which normalizers exist. A script has one for each environment, named `normalisers.<env>.mean`."""
    parts = [name.split(".") for name in tensor_names]
    owners = {part[0] for part in parts}
    of_scripts = {part[1] for part in parts if part[0] == "normalisers" and len(part) > 1}
    return {
        "observations": "observation_normalizer" in owners or bool(of_scripts),
        "returns": "return_scaler" in owners,
        "copies": len(of_scripts),
    }


def describe(one: Checkpoint) -> CheckpointSummary:
    return {
        "epoch": one.epoch,
        "agent_step": one.agent_step,
        "score": one.score,
        "avg_reward": one.avg_reward,
        "created_at": one.saved_at,
        "total_time": one.total_time,
        "run": one.run,
        "run_name": one.run_name,
        "bytes": sum(int(file["size"]) for file in one.files.values()),
        "metrics": {**one.metrics},
        "git_commit": one.git_commit,
    }


def select(cache: SidecarCache, directory: Path, selector: str) -> Checkpoint:
    """Selects a checkpoint by its sidecar; the size of the weights is checked, their content is not read."""
    chosen = parse_selector(selector)
    if isinstance(chosen, int):
        return read_checked(directory, chosen)
    if not isinstance(chosen, str):
        raise UsageError(f"Invalid checkpoint selector: {selector!r}.", "Use latest, best, or an epoch such as 10.")
    found = cache.survey(directory).checkpoints
    ranked = rank_from_best(found) if chosen == "best" else list(reversed(found))
    if not ranked:
        raise NotFound(f"This run has no {chosen} checkpoint.", "Has it saved and evaluated one?")
    return ranked[0]


def read_tensors(path: Path) -> dict[str, TensorInfo]:
    """Reads names, types and shapes from the header of a weights file."""
    try:
        with open_regular_file(path, 1 << 40, follow_links=False) as (stream, size):
            return read_header(stream.read(LENGTH_BYTES + MAX_HEADER_BYTES), size, path.name)
    except FileNotFoundError as error:
        raise NotFound(f"{path.name} does not exist any more.") from error


def _suite(directory: RunDirectory) -> Any:
    """Returns the evaluation config of the run; None without a config."""
    try:
        return read_config(directory).get("evaluation")
    except (NotFound, DamagedFile):
        return None


def _epoch(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_EPOCH_DIGITS):
        raise NotFound(f"Invalid epoch: {text[:50]!r} (must be a number).")
    return int(text)


class SidecarCache:
    """Sidecars that were read before. Parsing YAML takes about 10 ms each, and a long run has hundreds of them."""

    def __init__(self, max_cached: int = MAX_CACHED) -> None:
        self._max_cached = max_cached
        self._cached: OrderedDict[tuple[Path, int, int, int], Checkpoint] = OrderedDict()
        self._lock = threading.Lock()

    def survey(self, directory: Path) -> Survey:
        """Surveys checkpoints like `checkpoints.reading.survey`, without reading unchanged sidecars again."""
        checkpoints, refused = [], []
        for epoch in committed_epochs(directory):
            path = directory / sidecar_name(epoch)
            try:
                read = partial(self._read, directory, path, epoch)
                checkpoints.append(retry_while_replaced(read, partial(check_sizes, directory))[0])
            except NotFound:  # removed by retention since the directory was listed
                continue
            except DamagedFile as error:
                if path.exists():
                    refused.append(RefusedCheckpoint(path, error.message))
        return Survey(tuple(checkpoints), tuple(refused))

    def _read(self, directory: Path, path: Path, epoch: int) -> Checkpoint:
        """Reads a sidecar, or returns the cached one of the same file."""
        try:
            about = path.stat(follow_symlinks=False)
        except FileNotFoundError as error:
            raise NotFound(f"No checkpoint of epoch {epoch}.") from error
        key = (path, about.st_ino, about.st_size, about.st_mtime_ns)
        with self._lock:
            known = self._cached.get(key)
            if known is not None:
                self._cached.move_to_end(key)
                return known
        checkpoint = read_sidecar(directory, epoch)
        with self._lock:
            self._cached[key] = checkpoint
            while len(self._cached) > self._max_cached:
                self._cached.popitem(last=False)
        return checkpoint


def sidecar_cache(context: AppContext) -> SidecarCache:
    shelf = context.services.setdefault(SERVICE, SidecarCache())
    assert isinstance(shelf, SidecarCache)
    return shelf


ROUTES = (
    Endpoint(
        "GET",
        "/api/runs/{id}/checkpoints",
        list_checkpoints,
        "checkpoints of a run, oldest first",
        response=CheckpointList,
    ),
    Endpoint(
        "GET",
        "/api/runs/{id}/checkpoints/{epoch}/download",
        download_checkpoint,
        "sidecar and weights as a zip",
        media="application/zip",
        errors=(409,),
    ),
    Endpoint(
        "GET",
        "/api/checkpoints/inspect",
        inspect_checkpoint,
        "everything that a checkpoint says of itself",
        TargetQuery,
        response=InspectedCheckpoint,
        errors=(409,),
    ),
)
