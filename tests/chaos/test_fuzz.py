"""Made-up input to every parser of ours: it is read, or refused by an error of ours; nothing is run or started.

`make test` draws a sample; `python -m tools.reliability.fault_matrix --size published --only X1` a million and more.
"""

import hashlib
import io
import json
import zipfile
from dataclasses import asdict

import pytest

from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.scheme_files import encode_scheme, read_schemes
from palaestra.checkpoints import sidecar
from palaestra.checkpoints.safetensors_header import read_header
from palaestra.cluster.address import read_address
from palaestra.config.overrides import parse_overrides
from palaestra.config.sweep import parse_seeds
from palaestra.config.yaml import parse_simple_yaml, parse_yaml
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.run import RunRecord, RunState
from palaestra.core.spaces import decode_interface
from palaestra.core.worker_kind import Resources
from palaestra.daemon.run_entry import Submission, read_submission, stamped_submission
from palaestra.rendering.frame_format import (
    ABOUT,
    DEMAND,
    FRAME_HEADER,
    HEARTBEAT,
    About,
    Demand,
    FrameHeader,
    Heartbeat,
    Numbers,
    checked,
    unpack_about,
    unpack_demand,
    unpack_frame_header,
    unpack_heartbeat,
)
from palaestra.runs.directory import RunDirectory
from palaestra.runs.journal import read_journal
from palaestra.runs.replays import ReplayWriter, read_replay_file
from palaestra.runs.status import read_written_record
from palaestra.web.files import parse_range
from palaestra.web.request_parsing import parse_json
from palaestra.web.resources.checkpoint_zip import open_archive, read_pieces, validate_entries
from palaestra.web.sockets.live_view import ViewerMessage, parse_message
from palaestra.web.sockets.match import MatchViewerMessage
from tools.reliability.fuzzing import Parser, fuzz

SAMPLE = 500  # `make test` draws one of so many
MOST_SECONDS = 2.0  # CPU time of one input
EXAMPLE_YAML = b"policy:\n  graph: mlp\n  settings: {hidden: [8, 8], gain: 1e-3}\nnames:\n- a\n- 'b: c'\nempty: null\n"
CHECKPOINT = Checkpoint(
    *(10, 5120, 12.5, "01JCHECKPOINTS0000000000AB", "first", 1.7e9, {"graph": "mlp"}, {"id": "X"}, {}),
    files={"model_0010.safetensors": sidecar.digest(b"weights")},
)
RECORD = RunRecord("01J8Z3K4M5N6P7Q8R9S0T1V2W3", "a", "native", "cartpole", RunState.RUNNING, 1.5, summary={"x": 2.5})
ENTRY = b'{"at":1.5,"event":"run.started","level":"info","run":"x","rank":0,"data":{"world_size":2}}\n'
HEADER = b'{"__metadata__":{"a":"b"},"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}'
INTERFACE = (
    b'{"observation_space": {"kind": "box", "shape": [4], "dtype": "float32", "low": [-1.0], "high": [1.0]}, '
    b'"action_space": {"kind": "discrete", "count": 2, "start": 0}, "features": []}'
)


def framed(size):
    """Bytes of exactly one frame header: what is read from a lane always has its size."""
    return lambda data: data[:size].ljust(size, b"\x00")


def through(path, read):
    def read_bytes(data):
        path.write_bytes(data)
        return read(path)

    return read_bytes


def text_of(data):
    return data.decode("utf-8", "surrogateescape")


def sealed_sidecar(data):
    """A sidecar with the right checksum: what a hostile sender would write."""
    body = data if data.endswith(b"\n") else data + b"\n"
    return sidecar.decode(body + b"# sha256:" + hashlib.sha256(body).hexdigest().encode() + b"\n", "this sidecar")


def read_archive(data):
    with open_archive(io.BytesIO(data)) as archive:
        return {
            name: sum(map(len, read_pieces(archive, entry)))
            for name, entry in validate_entries(archive, 1 << 20).items()
        }


def read_interface(data):
    try:
        described = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return decode_interface(described) if isinstance(described, dict) else None


def zipped(method):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr("model_0001.yaml", EXAMPLE_YAML)
        archive.writestr("folder/model_0001.safetensors", bytes(200))
    return stream.getvalue()


def headed(header):
    return len(header).to_bytes(8, "little") + header + bytes(16)


def replay(folder):
    path = folder / "example.json.gz"
    with ReplayWriter(path, "test", {"seed": 5}) as writer:
        writer.add({"number": 1})
        writer.finish({"total": 1})
    return path.read_bytes()


def lane_parsers():
    about = About(4, 1 << 16, 1234, 5.5, 6.5).pack()
    note = FrameHeader(1, 1, 2, 2, 12, 7.5, Numbers(1, 0.5, 1.5, 3)).pack(bytes(12))
    whole, beat = framed(ABOUT.size), framed(HEARTBEAT.size)
    demand, slot = framed(DEMAND.size), framed(FRAME_HEADER.size)
    yield 150_000, Parser("lane head", lambda data: unpack_about(checked(whole(data))), (about,))
    yield 100_000, Parser("lane head as it lies there", unpack_about, (about, b""))
    yield 150_000, Parser("frame note", lambda data: unpack_frame_header(slot(data), 1 << 16), (note,))
    yield (
        100_000,
        Parser("beat", lambda data: unpack_heartbeat(checked(beat(data))), (Heartbeat(1.5, 2, 3, 4, 0.5, 1.0).pack(),)),
    )
    wish = Demand(5.0, 64, frozenset({0, 3}), 1, 1).pack(1001.0)
    yield 100_000, Parser("wish", lambda data: unpack_demand(checked(demand(data)), 1000.0), (wish,))


def text_parsers():
    arguments = (b"ppo.gamma=0.9", b"env.kwargs={a: [1, 2]}", b"run=first")
    yield 30_000, Parser("key=value", lambda data: parse_overrides([text_of(data)]), arguments)
    yield 20_000, Parser("YAML", parse_yaml, (EXAMPLE_YAML, b"a: 1\n", b"- 1\n- {b: 2}\n"))
    yield 50_000, Parser("plain YAML", lambda data: parse_simple_yaml(text_of(data)), (EXAMPLE_YAML,))
    encoded = sidecar.encode(CHECKPOINT)
    yield 50_000, Parser("sidecar", lambda data: sidecar.decode(data, "it"), (encoded,))
    yield 15_000, Parser("sidecar with a right checksum", sealed_sidecar, (encoded.rpartition(b"# sha256:")[0],))
    yield 50_000, Parser("seeds", lambda data: parse_seeds(text_of(data)), (b"1,2,5..9", b"3"))
    yield (
        50_000,
        Parser("address", lambda data: read_address(text_of(data)), (b"head:6379", b"[::1]:80", b"10.0.0.1:1")),
    )
    yield (
        50_000,
        Parser(
            "range header",
            lambda data: parse_range(data.decode("latin-1"), 100, None, '"x"'),
            (b"bytes=0-4", b"bytes=-5"),
        ),
    )
    yield 50_000, Parser("JSON body", parse_json, (b'{"config": {"ppo": {"gamma": 0.9}}, "nproc": 1}', ENTRY))
    reported = (
        b'{"fps": 30, "side": 256, "slots": [0, 1], "quality": 80}',
        b'{"ack": 1}',
        b'{"action": 3, "paused": true}',
    )
    yield 40_000, Parser("message of a viewer", lambda data: parse_message(ViewerMessage, text_of(data)), reported[:2])
    yield (
        40_000,
        Parser("message of a player", lambda data: parse_message(MatchViewerMessage, text_of(data)), reported[1:]),
    )
    yield 40_000, Parser("interface", read_interface, (INTERFACE,))


def file_parsers(folder):
    yield 30_000, Parser("safetensors header", lambda data: read_header(data, len(data), "it"), (headed(HEADER),))
    yield 10_000, Parser("archive", read_archive, (zipped(zipfile.ZIP_STORED), zipped(zipfile.ZIP_DEFLATED)))
    yield 20_000, Parser("journal", through(folder / "journal", read_journal), (ENTRY, ENTRY * 3))
    yield 10_000, Parser("replay", through(folder / "it.json.gz", read_replay_file), (replay(folder),))
    scheme = json.dumps(encode_scheme(naive_factorization(Format(1, 2, 1), Field.Z))).encode()
    yield 20_000, Parser("scheme file", through(folder / "it.json", read_schemes), (scheme,))
    run = RunDirectory(folder)
    record = json.dumps({"schema_version": 1, **asdict(RECORD)}).encode()
    yield 20_000, Parser("status", through(run.status_file, lambda _: read_written_record(run)), (record,))
    submission = json.dumps(stamped_submission(Submission(1, 1, Resources()))).encode()
    yield 10_000, Parser("ticket", through(run.queue_file, lambda _: read_submission(run)), (submission,))


NAMES = [
    *("lane head", "lane head as it lies there", "frame note", "beat", "wish"),
    *("key=value", "YAML", "plain YAML", "sidecar", "sidecar with a right checksum", "seeds", "address"),
    *("range header", "JSON body", "message of a viewer", "message of a player", "interface"),
    *("safetensors header", "archive", "journal", "replay", "scheme file", "status", "ticket"),
]


SIZES = [
    pytest.param(SAMPLE, id="sample"),
    pytest.param(1, marks=[pytest.mark.chaos, pytest.mark.timeout(3600)], id="all"),
]


@pytest.fixture
def parsers(tmp_path):
    found = [*lane_parsers(), *text_parsers(), *file_parsers(tmp_path)]
    return {parser.name: (count, parser) for count, parser in found}


@pytest.mark.fault("X1")
@pytest.mark.parametrize("share", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_whatever_comes_is_data_or_a_refusal_of_ours(parsers, figure, chaos_seed, name, share):
    count, parser = parsers[name]
    found = fuzz(parser, count // share, chaos_seed)
    figure(f"{name}: inputs", found.inputs)
    assert found.crashes == []
    assert found.forbidden == []
    assert found.slowest_seconds < MOST_SECONDS
    assert found.inputs == count // share


def test_every_parser_is_fuzzed_and_all_together_get_a_million(parsers):
    assert list(parsers) == NAMES
    assert sum(count for count, _ in parsers.values()) >= 1_000_000
