import re
from html.parser import HTMLParser

import pytest

from palaestra.analysis.html_report import make_page, write_page
from palaestra.analysis.report import find_and_analyze
from palaestra.core.errors import RunFailed

HOSTILE = "<img src=x onerror=alert(1)>"
VOID = {"meta"}


class Reader(HTMLParser):
    """Demands that every tag is closed in its order, and gathers text, tags and addresses."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.text, self.attributes = [], [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture
def analysis(make_run):
    for seed in (1, 2):
        run = make_run(f"ppo-{seed}", seed=seed)
        run.save(3, score=1.0)
        run.judge(3, [seed, 2.0], simulation="easy")
        run.judge(3, [seed, 4.0], simulation=HOSTILE, category=HOSTILE, max_episode_steps=3)
        run.measure("charts/episodic_return", [(1, 1.0), (2, 2.0)])
    other = make_run("other", a=1)
    other.judge(1, [5.0, 6.0], simulation="easy")
    return find_and_analyze(["ppo-1", "ppo-2", "other"])


def test_the_page_has_all_sections(analysis):
    reader = Reader(make_page(analysis, "Palaestra 1, today"))
    text = " ".join(reader.text)
    for format_number in (
        "ppo x2",
        "ppo-2:3",
        "other:1",
        "easy",
        "Interquartile mean",
        "Probability of improvement",
        "Palaestra 1, today",
    ):
        assert format_number in text
    assert "Learning: charts/episodic_return" in text
    assert analysis.policies[0].run in text
    assert reader.tags.count("svg") == 5  # two heat-maps, two figures, one chart


def test_the_page_asks_nobody_for_anything_and_runs_nothing(analysis):
    page = make_page(analysis, "")
    reader = Reader(page)
    assert not {"script", "link", "img", "iframe", "object", "image", "use"} & set(reader.tags)
    assert not any(name.startswith("on") or name in {"href", "src"} for name, _ in reader.attributes)
    assert set(re.findall(r"https?://[^\"' ]+", page)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert not re.search(r"url\(|@import", page)
    assert "default-src 'none'" in page


def test_every_name_is_escaped(analysis):
    page = make_page(analysis, HOSTILE)
    assert "<img" not in page
    assert HOSTILE in " ".join(Reader(page).text)


def test_both_grounds_are_served(analysis):
    page = make_page(analysis, "")
    assert page.count("prefers-color-scheme: dark") == 2
    assert "color-scheme: light dark" in page


def test_a_run_without_evaluations_has_a_page_with_its_curves(make_run):
    run = make_run("first")
    run.save(1)
    run.measure("charts/episodic_return", [(1, 1.0), (2, 2.0)])
    text = " ".join(Reader(make_page(find_and_analyze(["first"]), "")).text)
    assert "None of these policies was evaluated." in text
    assert "It was never evaluated" in text
    assert "Learning: charts/episodic_return" in text


def test_two_policies_with_nothing_in_common_have_a_page_without_overall_figures(make_run):
    make_run("one", a=1).judge(1, [1.0], env="A-v0")
    make_run("two", a=2).judge(1, [1.0], env="B-v0")
    text = " ".join(Reader(make_page(find_and_analyze(["one", "two"]), "")).text)
    assert "there are no overall figures" in text


def test_a_page_is_written_whole_or_the_reason_is_reported(analysis, tmp_path):
    write_page(analysis, tmp_path / "a.html")
    assert re.search(r"Palaestra \S+, \d{4}-\d\d-\d\d", " ".join(Reader((tmp_path / "a.html").read_text()).text))
    with pytest.raises(RunFailed, match=r"b.html could not be written: No such file"):
        write_page(analysis, tmp_path / "nowhere/b.html")
