import ast

import cleanrl_overhead
import pytest


def side(*seconds):
    return [{"seconds": each, "processor_seconds": each / 2} for each in seconds]


def test_the_page_compares_each_turn_with_its_own():
    sides = {
        "alone": side(10.0, 20.0, 10.0),
        "nobody watches": side(10.1, 20.2, 10.1),
        "watched": side(10.3, 20.6, 10.3),
    }
    facts = {"rounds": 1, "turns": 3, "steps": 1000, "cores": 2, "load_before": 0.5, "pictures": 300}
    text = cleanrl_overhead.page({**facts, "sides": sides})
    assert "| alone | 100 |  |  |" in text
    assert "| nobody watches | 99 | +1.00% (+1.00% to +1.00%) | +1.00% (+1.00% to +1.00%) |" in text
    assert "| watched | 97 | +3.00% (+3.00% to +3.00%) |" in text
    assert "The viewer got 7.3 pictures/s in all." in text


def test_how_sure_it_is_depends_on_rounds_and_not_on_turns():
    alone = side(*[1.0] * 200)
    two_rounds = side(*[1.0] * 100, *[1.1] * 100)
    middle, low, high = cleanrl_overhead.slower(two_rounds, alone, "seconds", rounds=2)
    assert middle == pytest.approx(1.1**0.5 - 1)
    assert (low, high) == pytest.approx((0.0, 0.1)), "either round may be the one that tells the truth"


def test_the_script_is_the_one_of_the_tests_and_waits_for_its_turn(tmp_path):
    text = cleanrl_overhead.modern(tmp_path).read_text()
    ast.parse(text)
    assert text.count("autoreset_mode=SAME_STEP") == 1
    loop = text[text.index("for _iteration in") : text.index("    envs.close()")]
    assert loop.index("may_go.read(1)") < loop.index("envs.step(") < loop.index("has_gone.write(")


@pytest.mark.full
def test_three_trainings_take_turns_and_one_of_them_is_observed():
    result = cleanrl_overhead.measure_all(rounds=1, turns=4)
    assert {side: len(found) for side, found in result["sides"].items()} == dict.fromkeys(cleanrl_overhead.SIDES, 4)
    assert all(one["seconds"] > 0 for found in result["sides"].values() for one in found)
    assert result["pictures"] > 0
