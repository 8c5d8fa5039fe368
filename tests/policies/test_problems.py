import pytest

from palaestra.core.errors import UsageError
from palaestra.policies.problems import Problems


def test_nothing_found_is_no_error():
    Problems("The graph 'x'").raise_if_any()


def test_one_problem_is_one_sentence_with_its_hint():
    problems = Problems("The graph 'x'")
    problems.add("node 'a': is broken", "Mend it.")
    with pytest.raises(UsageError) as refused:
        problems.raise_if_any()
    assert refused.value.message == "The graph 'x' cannot be built: node 'a': is broken."
    assert refused.value.hint == "Mend it."


def test_several_problems_are_all_said():
    problems = Problems("The graph 'x'")
    problems.add("first", "Try this.")
    problems.add("second")
    with pytest.raises(UsageError, match=r"for 2 reasons:\n  - first\. Try this\.\n  - second\."):
        problems.raise_if_any()
