import pytest

from palaestra.core.byte_counts import format_bytes


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (20_639_744, "20.6 MB"), (3.2e9, "3.2 GB")]
)
def test_bytes_are_told_with_three_digits(count, text):
    assert format_bytes(count) == text
