"""Translates messages into calls of the W&B client. Runs only in the W&B process."""

from __future__ import annotations

import json
import netrc
import os
import shutil
from dataclasses import astuple, dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from palaestra.config.loggers import WandbConfig
from palaestra.loggers.samples import EVALUATED_RETURN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from palaestra.core.clock import Clock


DIGITS = 20
OLD_COUNT = 5  # before there was a mark for evaluations


@dataclass(frozen=True)
class Marks:
    """Each is the largest step of its kind that was sent, or that waits on disk in a table to be sent."""

    sample_step: int = -1
    upload_step: int = -1  # checkpoint files
    checkpoint_row_step: int = -1
    episode_row_step: int = -1
    episode_count: int = 0  # rows sent, over all sessions: the number of the last episode
    evaluation_step: int = -1  # judgements come late, at steps that were passed long before


class MarksFile:
    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def read(self) -> Marks:
        """No marks in a file that is new or damaged: a doubled point is better than a run without W&B."""
        parts = os.pread(self._descriptor, 4096, 0).split()
        try:
            numbers = [int(word) for word in parts]
        except ValueError:
            return Marks()
        return Marks(*numbers) if len(numbers) in (OLD_COUNT, len(fields(Marks))) else Marks()

    def write(self, marks: Marks) -> None:
        line = b" ".join(b"%0*d" % (DIGITS, number) for number in astuple(marks)) + b"\n"
        os.pwrite(self._descriptor, line, 0)

    def close(self) -> None:
        os.close(self._descriptor)


FIRST_PAUSE_SECONDS = 30.0
PAUSE_SHARE = 0.1  # of the time since the start
MAX_ROWS = 200_000  # W&B reads no more


class CumulativeTable:
    def __init__(self, wandb: Any, run: Any, key: str, columns: Sequence[str], waiting: Path, clock: Clock) -> None:
        self._run = run
        self._key = key
        self._clock = clock
        self._started_at = clock.monotonic()
        self._due_at = self._started_at + FIRST_PAUSE_SECONDS
        self._row_count = 0
        self._logged_count = 0
        # types are not checked: a column without values yet may become one of numbers
        self._table = wandb.Table(columns=list(columns), log_mode="INCREMENTAL", allow_mixed_types=True)

        waiting_rows = _complete_lines(waiting)
        self._waiting = waiting.open("w", buffering=1, encoding="utf-8")
        for row in waiting_rows:
            self.add(row)

    def add(self, row: Sequence[Any]) -> None:
        if self._row_count < MAX_ROWS:
            self._waiting.write(json.dumps(row) + "\n")
            self._table.add_data(*row)
            self._row_count += 1

    @property
    def is_due(self) -> bool:
        return self._clock.monotonic() >= self._due_at

    def log(self) -> None:
        """Send the rows since the last time."""
        if self._row_count > self._logged_count:
            self._run.log({self._key: self._table})
            self._logged_count = self._row_count
            self._waiting.seek(0)
            self._waiting.truncate()
        now = self._clock.monotonic()
        self._due_at = now + max(FIRST_PAUSE_SECONDS, PAUSE_SHARE * (now - self._started_at))

    def close(self) -> None:
        self._waiting.close()


def _complete_lines(path: Path) -> list[list[Any]]:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


STEP = "global_step"  # CleanRL's name for the x axis
EPISODE_COLUMNS = ("Episode", "Reward", "Residual", "Rank")
FOLDERS = {"model": "checkpoints"}  # under Files; other kinds have a folder of their own name
CHECKPOINT_COLUMNS = ("Episode", "Step", "Run Duration (s)", "File")


class WandbSession:
    """From `wandb.init` to `finish`. Steps that an earlier session sent are not sent again."""

    def __init__(self, start: dict[str, Any], clock: Clock) -> None:
        self._wandb = import_module("wandb")
        memory = Path(start["memory"])
        memory.mkdir(parents=True, exist_ok=True)
        self._marks_file = MarksFile(memory / "marks")
        self._sent_before = self._marks_file.read()
        self._marks = self._sent_before
        self._upload_checkpoints = bool(start["upload_checkpoints"])
        self._run = self._begin(start)
        self._episodes = CumulativeTable(
            self._wandb, self._run, "tables/episodes", EPISODE_COLUMNS, memory / "episodes.jsonl", clock
        )
        self._checkpoints = CumulativeTable(
            self._wandb, self._run, "tables/checkpoints", CHECKPOINT_COLUMNS, memory / "checkpoints.jsonl", clock
        )

    def take(self, message: dict[str, Any]) -> None:
        match message["kind"]:
            case "sample":
                self._handle_sample(int(message["step"]), message["values"])
            case "episodes":
                self._handle_episodes(message["rows"])
            case "episode_summary":
                self._handle_summary(int(message["step"]), int(message["count"]), message["mean"])
            case "checkpoint":
                self._handle_checkpoint(message)
            case "table":
                self._handle_table(message["name"], message["columns"], message["rows"])
            case "files":
                files = [path for path in map(Path, message["files"]) if path.is_file()]
                self._upload(files, f"{self._run.id}-{message['name']}", message["type"], {}, ["latest"])

    def finish(self) -> None:
        for table in (self._episodes, self._checkpoints):
            table.log()
            table.close()
        self._run.finish()
        self._marks_file.close()

    def _begin(self, start: dict[str, Any]) -> Any:
        os.environ.setdefault("WANDB_CONSOLE", "off")  # this process prints nothing of interest
        run = self._wandb.init(
            id=start["id"],
            name=start["name"],
            resume="allow",
            mode=choose_mode(start["mode"]),
            project=choose_project(start["project"]),
            entity=start["entity"],
            group=start["group"],
            tags=start["tags"] or None,
            config=start["settings"],
            dir=os.environ.get("WANDB_DIR", start["directory"]),
        )
        run.define_metric(STEP)
        run.define_metric("*", step_metric=STEP)
        return run

    def _handle_sample(self, step: int, values: dict[str, float]) -> None:
        mark = "evaluation_step" if EVALUATED_RETURN in values else "sample_step"
        if step <= getattr(self._sent_before, mark):
            return
        self._run.log({STEP: step, **values})
        self._update_marks(**{mark: max(step, getattr(self._marks, mark))})
        for table in (self._episodes, self._checkpoints):
            if table.is_due:
                table.log()

    def _handle_episodes(self, rows: Iterable[list[Any]]) -> None:
        """Rows of (step, reward, residual, rank)."""
        count, last_step = self._marks.episode_count, self._marks.episode_row_step
        for step, *values in rows:
            if step > self._sent_before.episode_row_step:
                count, last_step = count + 1, step
                self._episodes.add([count, *values])
        self._update_marks(episode_count=count, episode_row_step=last_step)

    def _handle_summary(self, step: int, count: int, mean: float) -> None:
        """Combines many episodes into one row: the number of the last one, and their mean."""
        if step <= self._sent_before.episode_row_step:
            return
        self._update_marks(episode_count=self._marks.episode_count + count, episode_row_step=step)
        self._episodes.add([self._marks.episode_count, mean, None, None])

    def _handle_checkpoint(self, message: dict[str, Any]) -> None:
        step = int(message["step"])
        files = [path for path in map(Path, message["files"]) if path.is_file()]  # retention may have been faster
        if step > self._sent_before.checkpoint_row_step:
            name = files[0].stem if files else ""
            self._checkpoints.add([self._marks.episode_count, step, message["seconds"], name])
            self._update_marks(checkpoint_row_step=step)
        if self._upload_checkpoints and files and step > self._sent_before.upload_step:
            epoch = int(message["epoch"])
            about = {"epoch": epoch, "step": step}
            self._upload(files, f"{self._run.id}-checkpoint", "model", about, ["latest", f"epoch-{epoch}"])
            self._update_marks(upload_step=step)

    def _handle_table(self, name: str, columns: list[str], rows: list[list[Any]]) -> None:
        table = self._wandb.Table(columns=columns, log_mode="IMMUTABLE", allow_mixed_types=True)
        for row in rows:
            table.add_data(*row)
        self._run.log({f"tables/{name}": table})

    def _upload(self, files: list[Path], name: str, kind: str, about: dict[str, Any], aliases: list[str]) -> None:
        """Under Files by name, and as a new version of one artifact."""
        artifact = self._wandb.Artifact(name, type=kind, metadata=about)
        own_directory = Path(self._run.dir) / FOLDERS.get(kind, kind)
        own_directory.mkdir(exist_ok=True)
        for path in files:
            own = _link_or_copy(path, own_directory / path.name)
            artifact.add_file(str(own), name=path.name)
            self._run.save(str(own), base_path=self._run.dir, policy="now")
        self._run.log_artifact(artifact, aliases=aliases)

    def _update_marks(self, **marks: int) -> None:
        self._marks = replace(self._marks, **marks)
        self._marks_file.write(self._marks)


def choose_mode(requested: str) -> str:
    """`auto` follows WANDB_MODE; without it, online when there is a key for the server, else offline."""
    if requested != "auto":
        return requested
    return os.environ.get("WANDB_MODE") or ("online" if has_key() else "offline")


def choose_project(requested: str) -> str:
    """The configured project; WANDB_PROJECT replaces the default."""
    default = str(WandbConfig.model_fields["project"].default)
    return os.environ.get("WANDB_PROJECT", requested) if requested == default else requested


def has_key() -> bool:
    """Whether W&B would find one; it is not read here."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).netloc
    candidates = [os.environ.get("NETRC"), "~/.netrc", "~/_netrc"]
    paths = [Path(candidate).expanduser() for candidate in candidates if candidate]
    return any(_has_login(path, host) for path in paths if path.is_file())


def _has_login(path: Path, host: str) -> bool:
    try:
        return netrc.netrc(path).authenticators(host) is not None
    except (netrc.NetrcParseError, OSError):
        return False


def _link_or_copy(path: Path, own: Path) -> Path:
    """A name of our own for the same bytes, so that retention may remove the original before it is uploaded."""
    own.unlink(missing_ok=True)
    try:
        own.hardlink_to(path)
    except OSError:  # another file system
        shutil.copy2(path, own)
    return own
