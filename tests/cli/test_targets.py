from palaestra.cli.targets import run_names, run_selectors


def test_names_and_selectors_are_offered(runs):
    assert run_names() == ["first", "second", "third", "latest"]
    assert {"first", "first:best", "second:latest"} <= set(run_selectors())


def test_without_runs_there_is_nothing_to_offer(workplace):
    assert run_names() == run_selectors() == []
