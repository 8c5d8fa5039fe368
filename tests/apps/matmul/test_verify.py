import json
from argparse import Namespace
from dataclasses import replace

from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.scheme_files import encode_scheme
from palaestra.apps.matmul.verify import verify_files


def put(path, claim):
    path.write_text(json.dumps(encode_scheme(claim)))
    return str(path)


def arguments(*files, field=None):
    return verify_files(Namespace(files=list(files), field=field))


def test_a_valid_file_is_verified_and_compared(strassen, tmp_path):
    result = arguments(put(tmp_path / "strassen.json", strassen))
    (one,) = result.data["schemes"]
    assert (one["rank"], one["field"], one["comparison"], one["verified"]) == (7, "zt", "matches", True)
    assert result.exit_code == 0


def test_an_invalid_file_exits_with_1_and_the_others_are_verified(strassen, tmp_path):
    wrong = put(tmp_path / "wrong.json", replace(strassen, u=-strassen.u))
    result = arguments(wrong, str(tmp_path / "absent.json"), put(tmp_path / "right.json", strassen))
    assert [one["verified"] for one in result.data["schemes"]] == [False, False, True]
    assert "residual has" in result.data["schemes"][0]["message"]
    assert result.exit_code == 1


def test_a_scheme_over_gf2_is_not_reported_over_the_integers(strassen_bits, tmp_path):
    file = put(tmp_path / "bits.json", strassen_bits)
    assert arguments(file).data["schemes"][0]["field"] == "gf2"
    assert arguments(file, field="z").exit_code == 1


def test_a_scheme_invalid_over_its_field_is_refused(strassen_bits, tmp_path):
    assert arguments(put(tmp_path / "bits.json", replace(strassen_bits, field=Field.Z))).exit_code == 1


def test_without_a_field_the_strictest_valid_one_is_reported(strassen, strassen_bits, tmp_path):
    for claim, field in ((strassen, "zt"), (strassen_bits, "gf2")):
        data = {"n": [2, 2, 2], "u": claim.u.tolist(), "v": claim.v.tolist(), "w": claim.w.tolist()}
        (tmp_path / "one.json").write_text(json.dumps(data))
        assert arguments(str(tmp_path / "one.json")).data["schemes"][0]["field"] == field


def test_a_scheme_valid_over_no_field_is_refused_with_the_fields_tried(strassen, tmp_path):
    wrong = strassen.u.copy()
    wrong[0, 0] += 1
    data = {"n": [2, 2, 2], "u": wrong.tolist(), "v": strassen.v.tolist(), "w": strassen.w.tolist()}
    (tmp_path / "one.json").write_text(json.dumps(data))
    said = arguments(str(tmp_path / "one.json")).data["schemes"][0]["message"]
    assert "z, gf2, z3" in said
    assert "as it is or transposed" in said
    assert "wrong in" in said
