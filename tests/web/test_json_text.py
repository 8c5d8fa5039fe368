import json

import pytest

from palaestra.web.errors import Refusal
from palaestra.web.json_text import parse_json


def refused(content):
    with pytest.raises(Refusal) as caught:
        parse_json(content)
    assert caught.value.status == 400
    return caught.value


def test_what_json_allows_is_read_as_python_reads_it():
    data = {"a": [1, 2.5, None, True, "ä\u2028😀"], "b": {"c": {}}}
    assert parse_json(json.dumps(data).encode()) == data
    assert parse_json(json.dumps(data, ensure_ascii=False).encode()) == data


@pytest.mark.fault("W8")
@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"config": {"ppo": {"gamma": NaN}}}', "config.ppo.gamma"),
        ('{"config": [1, Infinity]}', "config.1"),
        ('{"config": {"x": -Infinity}}', "config.x"),
        ('{"a": {"b": 1e999}}', "a.b"),
        ('{"a": 1, "a": 2}', "a"),
        ('{"outer": {"name": 1, "name": 1}}', "outer.name"),
        ('{"name": "\\ud800"}', "name"),
        ('{"list": ["x", "\\udfff"]}', "list.1"),
        ('{"config": {"script": "a\\u0000b"}}', "config.script"),
        ('{"config": {"a\\u0000b": 1}}', "config"),
    ],
)
def test_what_json_does_not_allow_is_refused_by_the_name_of_the_field(text, field):
    assert [complaint.key for complaint in refused(text.encode()).fields] == [field]


def test_half_a_character_in_a_key_is_refused_too():
    assert "half a character" in refused(b'{"outer": {"\\ud800": 1}}').message


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1,]",
        b"{'a': 1}",
        b"\xff\xfe",
        b'{"a": "\xc3"}',
        b"nul",
        b"{} {}",
        b"1" * 5000,
        b'"\x00"',
        b"\xef\xbb\xbf{}",
    ],
)
def test_what_is_no_json_at_all_is_refused(content):
    refused(content)


@pytest.mark.fault("W8")
def test_depth_is_counted_and_deeper_is_refused():
    def nested(depth):
        return b"[" * depth + b"]" * depth

    assert parse_json(nested(32)) is not None
    for depth in (33, 900, 100_000):
        assert "levels deep" in refused(nested(depth)).message


def test_an_escaped_pair_is_one_character():
    assert parse_json(b'"\\ud83d\\ude00"') == "😀"


def test_the_name_of_a_field_is_shown_up_to_200_characters():
    complaint = refused(b'{"%s": NaN}' % (b"a" * 300)).fields[0]
    assert complaint.key == "a" * 200


def test_a_fault_of_the_whole_body_names_no_field():
    found = refused(b"NaN")
    assert [complaint.key for complaint in found.fields] == [""]
    assert found.message.startswith("'the body' is NaN")
