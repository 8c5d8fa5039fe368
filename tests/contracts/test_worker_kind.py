from palaestra.contracts.worker_kind import Complaint, RequestRefused


def test_one_complaint_reads_as_itself():
    error = RequestRefused([Complaint("nproc", "'nproc=0' cannot be.", "Use 1.")])
    assert (str(error), error.exit_code) == ("'nproc=0' cannot be. Use 1.", 2)


def test_several_complaints_are_counted_and_all_told():
    error = RequestRefused([Complaint("a", "A is wrong."), Complaint("b", "B is wrong.", "Mend it.")])
    assert str(error).splitlines() == ["2 things cannot be:", "  - A is wrong.", "  - B is wrong. Mend it."]
    assert [one.key for one in error.complaints] == ["a", "b"]
