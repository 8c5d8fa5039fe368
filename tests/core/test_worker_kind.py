from palaestra.core.worker_kind import FieldError, RequestRefused


def test_one_error_is_the_message():
    error = RequestRefused([FieldError("nproc", "Invalid value for nproc: 0.", "Use 1.")])
    assert (str(error), error.exit_code) == ("Invalid value for nproc: 0. Use 1.", 2)


def test_several_errors_are_counted_and_listed():
    error = RequestRefused([FieldError("a", "A is wrong."), FieldError("b", "B is wrong.", "Fix it.")])
    assert str(error).splitlines() == ["The request has 2 errors:", "  - A is wrong.", "  - B is wrong. Fix it."]
    assert [one.key for one in error.field_errors] == ["a", "b"]


def test_equal_exit_codes_of_the_errors_become_the_exit_code():
    missing, wrong = FieldError("python", "jax is missing.", "", 4), FieldError("a", "A is wrong.")
    assert RequestRefused([missing]).exit_code == 4
    assert RequestRefused([missing, missing]).exit_code == 4
    assert RequestRefused([missing, wrong]).exit_code == 2
