from palaestra.apps.matmul.benchmark.c_source import computed_outputs, factor_order, scheme_source
from palaestra.apps.matmul.schemes.straight_line import naive_program, scheme_programs


def test_factors_that_are_one_block_are_not_copied(strassen):
    assert computed_outputs(naive_program(strassen.u)) == [0, 1, 4, 5, 6]  # the third and fourth are a11 and a22


def test_integers_are_unsigned(strassen):
    programs = scheme_programs(strassen)
    assert "typedef uint64_t T;" in scheme_source(programs, "int64")
    assert "typedef float T;" in scheme_source(programs, "float32")


def test_there_is_a_function_for_each_table(strassen):
    source = scheme_source(scheme_programs(strassen), "float64")
    assert [name in source for name in ("void left(", "void right(", "void product(")] == [True] * 3


def test_factors_are_blocks_or_sums(strassen):
    assert factor_order(naive_program(strassen.u)) == [4, 5, 0, 3, 6, 7, 8]
