import json
import stat


def test_the_token_is_made_once_and_shown(call, workplace):
    first = call("token")
    assert (first[0], first[2]) == (0, "")
    assert call("token") == first
    path = workplace / "runs" / ".palaestra" / "token"
    assert path.read_text() == first[1]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(call("token", "--json")[1]) == {"token": first[1].strip(), "file": str(path)}


def test_a_renewed_token_is_another(call):
    old = call("token")[1]
    code, new, reported = call("token", "--renew")
    assert code == 0
    assert new != old
    assert "sign in again" in reported
    assert call("token")[1] == new


def test_a_link_needs_a_daemon(call):
    code, out, err = call("token", "--link")
    assert (code, out) == (3, "")
    assert "palaestra serve" in err
    assert call("token", "--link", "--renew")[0] == 2


def test_a_token_that_others_can_read_is_refused_until_it_is_renewed(call, workplace):
    call("token")
    (workplace / "runs" / ".palaestra" / "token").chmod(0o644)
    code, out, err = call("token")
    assert (code, out) == (1, "")
    assert "--renew" in err
    assert call("token", "--renew")[0] == 0
    assert call("token")[0] == 0
