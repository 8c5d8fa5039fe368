from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaestra.web.errors import Refusal
from palaestra.web.ranges import Span, is_known, wanted_span

ETAG = '"abc"'


def span(header, size=100, if_range=None):
    return wanted_span(header, size, if_range, ETAG)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-9", (0, 10)),
        ("bytes=0-", (0, 100)),
        ("bytes=90-", (90, 100)),
        ("bytes=-10", (90, 100)),
        ("bytes=-1000", (0, 100)),
        ("bytes=50-1000", (50, 100)),
        ("bytes=99-99", (99, 100)),
        ("bytes=0-0", (0, 1)),
        (" bytes = 5 - 6 ", (5, 7)),
        ("bytes=0-9999999999999999999", (0, 100)),
    ],
)
def test_one_range_is_understood(header, expected):
    found = span(header)
    assert (found.start, found.end) == expected


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "bytes",
        "bytes=",
        "bytes=-",
        "bytes=a-b",
        "bytes=5-2",
        "bytes=0-1,3-4",
        "items=0-5",
        "bytes=0x1-2",
        "bytes=1-2-3",
        "bytes=-5-",
        "bytes=٣-٤",
        "bytes=99999999999999999999-",
    ],
)
def test_what_cannot_be_read_or_asks_for_several_means_all_of_it(header):
    assert span(header) is None


@pytest.mark.parametrize(
    ("header", "size"),
    [("bytes=100-", 100), ("bytes=100-200", 100), ("bytes=-0", 100), ("bytes=0-", 0), ("bytes=-5", 0)],
)
def test_what_lies_behind_the_end_is_refused_with_the_size(header, size):
    with pytest.raises(Refusal) as refused:
        span(header, size)
    assert refused.value.status == 416
    assert refused.value.headers["content-range"] == f"bytes */{size}"


def test_a_range_of_another_version_means_all_of_it():
    assert span("bytes=0-9", if_range=ETAG) == Span(0, 10)
    assert span("bytes=0-9", if_range='"other"') is None
    assert span("bytes=0-9", if_range='W/"abc"') is None  # weak tags never match here
    assert span("bytes=0-9", if_range="Mon, 16 Nov 2026 03:00:00 GMT") is None


def test_who_has_it_already_is_told_so():
    assert is_known(ETAG, ETAG)
    assert is_known(f'"x", W/{ETAG}', ETAG)
    assert is_known("*", ETAG)
    assert not is_known('"x"', ETAG)
    assert not is_known(None, ETAG)


@given(st.text(), st.integers(0, 1000))
def test_no_header_makes_it_fail_and_every_span_lies_inside(header, size):
    try:
        found = wanted_span(f"bytes={header}", size, None, ETAG)
    except Refusal:
        return  # its status is looked at elsewhere
    assert found is None or 0 <= found.start < found.end <= size


@given(st.integers(0, 200), st.integers(0, 200), st.integers(1, 100))
def test_a_span_is_what_slicing_gives(first, last, size):
    content = bytes(range(size))
    expected = content[first : last + 1]
    try:
        found = wanted_span(f"bytes={first}-{last}", size, None, ETAG)
    except Refusal:
        assert expected == b""
        assert first <= last
        return
    assert content[found.start : found.end] == expected if found else first > last
