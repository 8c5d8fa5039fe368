import ast

import cleanrl_overhead


def side(*seconds, **more):
    return [{"seconds": each, "processor_seconds": each / 2, **more} for each in seconds]


def test_the_page_compares_each_round_with_its_own():
    sides = {
        "alone": side(10.0, 20.0, 10.0),
        "nobody watches": side(10.1, 20.2, 10.1),
        "watched": side(10.3, 20.6, 10.3, pictures=100.0),
    }
    text = cleanrl_overhead.page({"rounds": 3, "steps": 1000, "cores": 2, "load_before": 0.5, "sides": sides})
    assert "| alone | 100 |  |  |" in text
    assert "| nobody watches | 99 | +1.00% (+1.00% to +1.00%) | +1.00% (+1.00% to +1.00%) |" in text
    assert "| watched | 97 | +3.00% (+3.00% to +3.00%) |" in text
    assert "The viewer got 7.3 pictures/s in all." in text


def test_the_script_is_the_one_of_the_tests_and_tells_its_times(tmp_path):
    text = cleanrl_overhead.modern(tmp_path).read_text()
    ast.parse(text)
    assert text.count("autoreset_mode=SAME_STEP") == 1
    assert cleanrl_overhead.TOLD.search("before\nLOOP 1.5 1.25\n").groups() == ("1.5", "1.25")
    assert text.rstrip().endswith("flush=True)")
