import json
from argparse import Namespace
from dataclasses import replace

from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.scheme_files import encode_scheme
from palaestra.apps.matmul.verify import verify_files


def put(path, claim):
    path.write_text(json.dumps(encode_scheme(claim)))
    return str(path)


def asked(*files, field=None):
    return verify_files(Namespace(files=list(files), field=field))


def test_a_right_file_is_proved_and_placed(strassen, tmp_path):
    answer = asked(put(tmp_path / "strassen.json", strassen))
    (one,) = answer.data["schemes"]
    assert (one["rank"], one["field"], one["comparison"], one["verified"]) == (7, "zt", "matches", True)
    assert answer.exit_code == 0


def test_one_wrong_file_leaves_with_1_and_the_others_are_still_judged(strassen, tmp_path):
    wrong = put(tmp_path / "wrong.json", replace(strassen, u=-strassen.u))
    answer = asked(wrong, str(tmp_path / "absent.json"), put(tmp_path / "right.json", strassen))
    assert [one["verified"] for one in answer.data["schemes"]] == [False, False, True]
    assert "residual has" in answer.data["schemes"][0]["message"]
    assert answer.exit_code == 1


def test_a_scheme_modulo_2_is_never_called_one_over_whole_numbers(strassen_bits, tmp_path):
    file = put(tmp_path / "bits.json", strassen_bits)
    assert asked(file).data["schemes"][0]["field"] == "gf2"
    assert asked(file, field="z").exit_code == 1


def test_a_file_that_claims_too_much_is_refused(strassen_bits, tmp_path):
    assert asked(put(tmp_path / "bits.json", replace(strassen_bits, field=Field.Z))).exit_code == 1


def test_where_the_field_is_not_said_the_strictest_that_holds_is_found(strassen, strassen_bits, tmp_path):
    for claim, field in ((strassen, "zt"), (strassen_bits, "gf2")):
        data = {"n": [2, 2, 2], "u": claim.u.tolist(), "v": claim.v.tolist(), "w": claim.w.tolist()}
        (tmp_path / "one.json").write_text(json.dumps(data))
        assert asked(str(tmp_path / "one.json")).data["schemes"][0]["field"] == field


def test_a_scheme_that_holds_over_no_field_is_refused_with_all_that_was_tried(strassen, tmp_path):
    wrong = strassen.u.copy()
    wrong[0, 0] += 1
    data = {"n": [2, 2, 2], "u": wrong.tolist(), "v": strassen.v.tolist(), "w": strassen.w.tolist()}
    (tmp_path / "one.json").write_text(json.dumps(data))
    said = asked(str(tmp_path / "one.json")).data["schemes"][0]["message"]
    assert "zt, z, gf2" in said
    assert "as it is or transposed" in said
    assert "wrong in" in said
