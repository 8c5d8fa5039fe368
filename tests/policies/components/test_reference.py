from pathlib import Path

from palaestra.policies.components.reference import reference_lines
from palaestra.policies.components.registry import SHIPPED
from palaestra.policies.shipped import shipped_graph

PAGE = Path(__file__).parents[3] / "docs" / "policies.md"


def test_the_documentation_has_every_component_and_setting_as_it_is():
    _, _, written = PAGE.read_text().partition("## Components\n\n")
    assert written.strip() == "\n".join(reference_lines()).strip(), "write what reference_lines() gives into the page"


def test_every_setting_is_a_row_with_its_default():
    text = "\n".join(reference_lines())
    for name, component in SHIPPED.items():
        assert f"### {name}\n" in text
        assert all(f"| `{setting}` |" in text for setting in component.Settings.model_fields)
    assert "| `size` | integer >= 1 | `128` | numbers that are remembered, and that come out |" in text


def test_the_graph_on_the_page_is_the_graph_that_is_shipped():
    shown = PAGE.read_text().split("```yaml\n")[1].split("```")[0]
    shipped = Path(__file__).parents[3] / "src" / "palaestra" / "policies" / "graphs" / "fast.yaml"
    assert shown == shipped.read_text()
    assert shipped_graph("fast")["nodes"]["memory"]["type"] == "lstm"
