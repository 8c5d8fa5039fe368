from pathlib import Path

from palaestra.web.app import all_routes
from palaestra.web.openapi import build_openapi
from palaestra.web.typescript import main, typescript

COMMITTED = Path(__file__).parents[2] / "ui" / "src" / "lib" / "api_types.ts"


def test_the_types_of_the_page_are_those_of_the_api():
    made = typescript(build_openapi(all_routes())["components"]["schemas"])
    assert COMMITTED.read_text() == made, "run: make api-types"


def test_every_kind_of_schema_has_its_type():
    part = {"type": "object", "properties": {"a-b": {"type": "string"}}, "required": []}
    schema = {
        "type": "object",
        "description": "All of\n  it.",
        "required": ["name", "parts"],
        "properties": {
            "name": {"type": "string", "description": "what it is called"},
            "parts": {"type": "array", "items": {"anyOf": [{"$ref": "#/components/schemas/Part"}, {"type": "null"}]}},
            "choice": {"enum": ["x", "y"]},
            "fixed": {"const": 3},
            "old": {"type": ["integer", "null"]},
            "map": {"type": "object", "additionalProperties": {"type": "number"}},
            "any": {},
            "inner": {"type": "object", "required": ["deep"], "properties": {"deep": {"type": "boolean"}}},
            "object": {"type": "object"},
        },
    }
    assert typescript({"Whole": schema, "Part": part, "Word": {"enum": ["w"]}}).split("};\n\n", 1)[1] == (
        'export interface Part {\n  "a-b"?: string;\n}\n'
        "\n"
        "/** All of it. */\n"
        "export interface Whole {\n"
        "  name: string; // what it is called\n"
        "  parts: (Part | null)[];\n"
        '  choice?: "x" | "y";\n'
        "  fixed?: 3;\n"
        "  old?: number | null;\n"
        "  map?: Record<string, number>;\n"
        "  any?: Json;\n"
        "  inner?: {\n    deep: boolean;\n  };\n"
        "  object?: { [key: string]: Json };\n"
        "}\n"
        "\n"
        'export type Word = "w";\n'
    )


def test_a_file_that_is_out_of_date_is_reported_and_rewritten(tmp_path, capsys):
    file = tmp_path / "types.ts"
    assert main([str(file), "--check"]) == 1
    assert "make api-types" in capsys.readouterr().err
    assert main([str(file)]) == 0
    assert main([str(file), "--check"]) == 0
    file.write_text(file.read_text().replace("agent_step", "step"))
    assert main([str(file), "--check"]) == 1
