from palaestra.core.worker_kind import Complaint, RequestRefused


def test_one_complaint_reads_as_itself():
    error = RequestRefused([Complaint("nproc", "'nproc=0' cannot be.", "Use 1.")])
    assert (str(error), error.exit_code) == ("'nproc=0' cannot be. Use 1.", 2)


def test_several_complaints_are_counted_and_all_told():
    error = RequestRefused([Complaint("a", "A is wrong."), Complaint("b", "B is wrong.", "Mend it.")])
    assert str(error).splitlines() == ["2 things cannot be:", "  - A is wrong.", "  - B is wrong. Mend it."]
    assert [one.key for one in error.complaints] == ["a", "b"]


def test_the_exit_code_is_that_of_the_complaints_where_they_agree():
    missing, wrong = Complaint("python", "jax is missing.", "", 4), Complaint("a", "A is wrong.")
    assert RequestRefused([missing]).exit_code == 4
    assert RequestRefused([missing, missing]).exit_code == 4
    assert RequestRefused([missing, wrong]).exit_code == 2
