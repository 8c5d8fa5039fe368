from __future__ import annotations

from palaestra.web.schemas import TEXT, WHOLE, fields, listed_files, rows


def test_an_object_demands_all_its_fields_and_allows_more():
    schema = fields(name=TEXT, bytes=WHOLE)
    assert schema["required"] == ["bytes", "name"]
    assert "additionalProperties" not in schema


def test_a_listing_is_rows_of_files():
    schema = listed_files("videos")
    assert schema["properties"]["videos"] == rows(schema["properties"]["videos"]["items"])
    assert schema["required"] == ["videos"]
