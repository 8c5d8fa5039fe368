import dataclasses
import hashlib
import math
import string
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palaestra.checkpoints import sidecar
from palaestra.config.yaml import dump_yaml, parse_yaml
from palaestra.core.checkpoint import Checkpoint
from palaestra.core.errors import DamagedFile, UsageError

FILES = {"model_0010.safetensors": sidecar.digest(b"weights"), "trainer_state_0010.pt": sidecar.digest(b"state")}


@pytest.fixture
def written(describe):
    return describe(files=FILES, score=-1.5)


def resealed(raw, change):
    """The sidecar with its content changed and its checksum right again, as a forger would do it."""
    content = parse_yaml(raw[: -len("# sha256:") - 65])
    change(content)
    body = dump_yaml(content).encode()
    return body + b"# sha256:" + hashlib.sha256(body).hexdigest().encode() + b"\n"


def test_what_is_written_is_read_back_equal(written):
    assert sidecar.decode(sidecar.encode(written), "x") == written


SEGMENT = {"rank0_000000001000_0a1b2c3d.rows": f"1000 2000 4096 {'0123456789abcdef' * 4}"}


def test_segments_of_a_replay_buffer_are_read_back_and_need_format_2(written):
    saved = dataclasses.replace(written, replay_segments=SEGMENT)
    raw = sidecar.encode(saved)
    assert raw.startswith(b"schema_version: 2\n")
    assert sidecar.decode(raw, "x") == saved


@pytest.mark.parametrize(
    "segments",
    [
        {"../../etc/passwd": next(iter(SEGMENT.values()))},
        {"rank0_000000001000_0a1b2c3d.rows/x": next(iter(SEGMENT.values()))},
        {next(iter(SEGMENT)): "1000 2000 4096"},
        {next(iter(SEGMENT)): "1000 2000 -1 " + "0" * 64},
        {next(iter(SEGMENT)): 3},
        [],
    ],
)
def test_segments_that_are_none_are_refused(written, segments):
    raw = sidecar.encode(dataclasses.replace(written, replay_segments=SEGMENT))
    assert "segment" in refusal_of(resealed(raw, lambda content: content.update(replay_segments=segments)))


def test_the_last_line_is_the_checksum_of_all_before(written):
    lines = sidecar.encode(written).splitlines(keepends=True)
    assert lines[-1] == b"# sha256:" + hashlib.sha256(b"".join(lines[:-1])).hexdigest().encode() + b"\n"
    assert lines[0] == b"schema_version: 1\n"


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(value=plain, score=st.none() | st.floats(allow_nan=False, allow_infinity=False), step=st.integers(0, 2**62))
def test_any_plain_settings_survive(value, score, step):
    checkpoint = Checkpoint(
        10, step, 0.1, "r", "n", 1.5, {"settings": value}, {}, {}, score=score, files=FILES, metrics={"a/b": math.inf}
    )
    assert sidecar.decode(sidecar.encode(checkpoint), "x") == checkpoint


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_a_score_that_is_no_number_is_written_as_none(written, value):
    read = sidecar.decode(sidecar.encode(dataclasses.replace(written, score=value, avg_reward=value)), "x")
    assert read.score is None
    assert read.avg_reward is None


def test_numpy_numbers_and_tuples_become_plain(written):
    given = dataclasses.replace(written, score=np.float32(2.5), agent_step=np.int64(7), policy={"hidden": (64, 64)})
    read = sidecar.decode(sidecar.encode(given), "x")
    assert (read.score, read.agent_step, read.policy) == (2.5, 7, {"hidden": [64, 64]})
    assert type(read.agent_step) is int


def test_an_object_among_the_settings_is_named(written):
    with pytest.raises(UsageError, match=r"policy\.settings\.when is a object"):
        sidecar.encode(dataclasses.replace(written, policy={"settings": {"when": object()}}))


@pytest.mark.fault("C7")
def test_every_single_flipped_bit_is_seen(written):
    raw = sidecar.encode(written)
    for position in range(0, len(raw), 7):
        changed = bytearray(raw)
        changed[position] ^= 1 << (position % 8)
        with pytest.raises(DamagedFile):
            sidecar.decode(bytes(changed), "x")


@pytest.mark.fault("C6")
def test_every_shorter_beginning_is_refused(written):
    raw = sidecar.encode(written)
    for length in [*range(0, len(raw), 11), len(raw) - 1]:
        with pytest.raises(DamagedFile):
            sidecar.decode(raw[:length], "x")


@pytest.mark.fault("C17")
def test_a_future_format_is_refused_with_both_numbers(written):
    raw = resealed(sidecar.encode(written), lambda content: content.update(schema_version=3, new_thing=1))
    with pytest.raises(DamagedFile, match=r"format 3, this version reads 1.2"):
        sidecar.decode(raw, "x")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epoch", -1),
        ("epoch", True),
        ("epoch", "10"),
        ("epoch", 10.0),
        ("agent_step", None),
        ("total_time", -1.0),
        ("total_time", math.inf),
        ("total_time", 10**400),
        ("run", 5),
        ("saved_at", math.nan),
        ("policy", []),
        ("policy", {1: 2}),
        ("env", None),
        ("interface", "x"),
        ("score", math.nan),
        ("score", "high"),
        ("avg_reward", math.inf),
        ("seed", -1),
        ("metrics", {"a": "b"}),
        ("metrics", {"a": True}),
        ("versions", {"a": 1}),
        ("git_commit", None),
        ("files", {}),
        ("files", {"model_0010.safetensors": {"size": 1}}),
        ("files", {"model_0010.safetensors": {"size": -1, "sha256": "0" * 64}}),
        ("files", {"model_0010.safetensors": {"size": 1, "sha256": "G" * 64}}),
        ("files", {"model_0010.safetensors": {"size": 1, "sha256": "~" * 64}}),
        ("files", {"model_0010.safetensors": {"size": 1, "sha256": ["0"] * 64}}),
        ("files", {"model_0010.safetensors": {"size": 1, "sha256": "0" * 63}}),
        ("files", {"model_0010.safetensors": {"size": 1, "sha256": "0" * 64, "mode": 1}}),
        ("files", {"model_0010.safetensors": ["size", "sha256"]}),
        ("files", {"model_0011.safetensors": {"size": 1, "sha256": "0" * 64}}),
        ("files", {"../model_0010.safetensors": {"size": 1, "sha256": "0" * 64}}),
        ("files", {"trainer_state_0010.pt": {"size": 1, "sha256": "0" * 64}}),
    ],
)
def test_a_forged_field_of_the_wrong_kind_is_refused(written, field, value):
    raw = resealed(sidecar.encode(written), lambda content: content.__setitem__(field, value))
    with pytest.raises(DamagedFile, match="somewhere"):
        sidecar.decode(raw, "somewhere")


def sealed(body):
    return body + b"# sha256:" + hashlib.sha256(body).hexdigest().encode() + b"\n"


def refusal_of(raw):
    with pytest.raises(DamagedFile, match="^somewhere: ") as caught:
        sidecar.decode(raw, "somewhere")
    return caught.value.message


@pytest.mark.parametrize("version", [None, True, "1", 1.0, 0, 3, [1]])
def test_a_format_that_is_none_of_ours_is_refused(written, version):
    raw = resealed(sidecar.encode(written), lambda content: content.update(schema_version=version))
    assert "this version reads" in refusal_of(raw)


def test_the_least_and_the_largest_of_everything_are_read_back(written):
    digits = {"size": 0, "sha256": "0123456789abcdef" * 4}
    files = {"model_0000.safetensors": digits}
    least = dataclasses.replace(written, epoch=0, agent_step=0, total_time=0.0, seed=0, files=files)
    for value in (0.0, sys.float_info.max, -sys.float_info.max):
        checkpoint = dataclasses.replace(least, score=value)
        assert sidecar.decode(sidecar.encode(checkpoint), "x") == checkpoint


@pytest.mark.parametrize("mark", [b",", b":", b"\n"])
def test_so_many_marks_that_reading_would_take_seconds_are_refused_before_it(mark):
    """One more than the most; with the most itself the text is looked at, and found to be no checkpoint."""
    body = b"x: '" + (sidecar.MAX_MARKS - 2) * mark + b"'\n"
    assert "entries" not in refusal_of(sealed(body))
    assert "entries" in refusal_of(sealed(body.replace(b"'\n", mark + b"'\n")))


def test_a_text_as_long_as_allowed_is_looked_at_and_one_byte_more_is_not():
    body = b"x: " + b"y" * (sidecar.MAX_BYTES - len(b"x: ") - 1 - 74) + b"\n"
    assert len(sealed(body)) == sidecar.MAX_BYTES
    assert "bytes" not in refusal_of(sealed(body))
    assert "bytes" in refusal_of(sealed(b"#" + body))


@pytest.mark.parametrize("body", [b"- 1\n", b"5\n", b"\n", b"a: [\n", b"a: !!python/name:os.system x\n", b"\xff: 1\n"])
def test_sealed_text_that_holds_no_fields_is_refused_with_its_source(body):
    refusal_of(sealed(body))


def test_a_long_value_is_shown_by_its_beginning(written):
    def message(value):
        return refusal_of(resealed(sidecar.encode(written), lambda content: content.update(score=value)))

    assert f"score={'x' * 58!r} is not" in message("x" * 58)
    assert f"score='{'x' * 56}... is not" in message("x" * 59)


def test_an_unknown_field_is_refused_with_the_nearest(written):
    raw = resealed(sidecar.encode(written), lambda content: content.update(scores=1.0))
    with pytest.raises(DamagedFile, match="Did you mean 'score'"):
        sidecar.decode(raw, "x")


@pytest.mark.parametrize("key", [None, 5, True, 1.5])
def test_a_field_without_a_name_is_refused_like_any_other(written, key):
    raw = resealed(sidecar.encode(written), lambda content: content.__setitem__(key, 1))
    assert refusal_of(raw) == f"somewhere: unknown field {key!r}."


def test_a_missing_field_is_named(written):
    raw = resealed(sidecar.encode(written), lambda content: content.pop("run"))
    with pytest.raises(DamagedFile, match="'run' is missing"):
        sidecar.decode(raw, "x")


def test_a_description_too_large_to_be_read_back_is_refused_when_written(written):
    with pytest.raises(UsageError, match="bytes"):
        sidecar.encode(dataclasses.replace(written, policy={"table": "x" * sidecar.MAX_BYTES}))


def test_what_one_reader_changes_another_does_not_see(written):
    raw = sidecar.encode(written)
    sidecar.decode(raw, "x").policy["graph"] = "changed"
    assert sidecar.decode(raw, "x").policy["graph"] == "mlp"


@pytest.mark.parametrize("letter", sorted(set(string.printable) - set("0123456789abcdef") - set(string.whitespace)))
def test_a_checksum_has_hexadecimal_digits_only(letter):
    assert not sidecar._is_file_entry({"size": 1, "sha256": "0" * 63 + letter})
    assert sidecar._is_file_entry({"size": 1, "sha256": "0" * 63 + "f"})


def test_the_limits_as_numbers():
    assert (sidecar.MAX_BYTES, sidecar.MAX_MARKS) == (131_072, 8_000)
