import pytest

from palaestra.web.security.origin import ServerAddress, bracketed, is_loopback, is_well_formed_origin

HOME = ServerAddress("127.0.0.1", 7878)


@pytest.mark.parametrize("host", ["127.0.0.1:7878", "localhost:7878", "[::1]:7878", "LOCALHOST:7878"])
def test_the_names_of_this_machine_with_the_port_are_allowed(host):
    assert HOME.check_host(host) == "allowed"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "localhost:7879",
        "localhost:07878",
        "evil.example:7878",
        "localhost.:7878",
        "127.0.0.1.nip.io:7878",
        "127.1:7878",
        "0.0.0.0:7878",
        "[::ffff:127.0.0.1]:7878",
        "localhost.evil.example:7878",
    ],
)
def test_similar_hosts_are_foreign(host):
    assert HOME.check_host(host) == "foreign"


@pytest.mark.parametrize(
    "host",
    [
        "",
        " ",
        "a b:7878",
        "localhost:7878:7878",
        "http://localhost:7878",
        "user@localhost:7878",
        "localhost:",
        "[::1",
        "ä:7878",
        "localhost:99999999",
        "localhost/:7878",
        "%6cocalhost:7878",
    ],
)
def test_invalid_hosts_are_malformed(host):
    assert HOME.check_host(host) == "malformed"


@pytest.mark.parametrize(
    "origin", ["null", "http://localhost:7878", "https://evil.example", "chrome-extension://abcdef"]
)
def test_origins_sent_by_browsers_are_well_formed(origin):
    assert is_well_formed_origin(origin)


@pytest.mark.parametrize(
    "origin", ["", "localhost", "http://", "http://a b", "http://localhost:7878/", "HTTP://x", "://x", "http://u@h"]
)
def test_other_origins_are_malformed(origin):
    assert not is_well_formed_origin(origin)


def test_with_the_default_port_the_host_needs_no_port():
    assert ServerAddress("127.0.0.1", 443, "https").check_host("localhost") == "allowed"
    assert ServerAddress("127.0.0.1", 443, "http").check_host("localhost") == "foreign"


def test_a_bound_network_address_is_allowed_and_loopback_is_not():
    location = ServerAddress("192.168.1.5", 7878, names=("box.lan", "box.lan:8443"))
    assert [location.check_host(host) for host in ("192.168.1.5:7878", "box.lan:7878", "box.lan:8443")] == [
        "allowed"
    ] * 3
    assert [location.check_host(host) for host in ("localhost:7878", "box.lan", "192.168.1.6:7878")] == ["foreign"] * 3


def test_an_ipv6_address_is_bracketed_in_urls():
    assert ServerAddress("::1", 7878).url == "http://[::1]:7878"
    assert bracketed("::1") == "[::1]"
    assert ServerAddress("::1", 7878).check_host("[::1]:7878") == "allowed"


def test_a_wildcard_bind_allows_loopback():
    assert ServerAddress("0.0.0.0", 7878).url == "http://127.0.0.1:7878"
    for wildcard in ("0.0.0.0", "::"):
        location = ServerAddress(wildcard, 7878)
        assert location.is_wildcard
        assert location.url == "http://127.0.0.1:7878"
        assert [location.check_host(host) for host in ("localhost:7878", "[::1]:7878", "127.0.0.1:7878")] == [
            "allowed"
        ] * 3
        assert [location.check_host(host) for host in ("0.0.0.0:7878", "[::]:7878")] == ["foreign"] * 2


def test_the_scheme_defines_security_and_the_default_port():
    assert [ServerAddress("127.0.0.1", 80, scheme).is_secure for scheme in ("http", "https")] == [False, True]
    assert ServerAddress("127.0.0.1", 80, "http").check_host("localhost") == "allowed"
    assert ServerAddress("127.0.0.1", 80, "https").check_host("localhost") == "foreign"
    assert ServerAddress("127.0.0.1", 443, "https", names=("Box.lan",)).check_host("box.LAN") == "allowed"


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("192.168.1.5", False),
        ("box", False),
        ("", False),
    ],
)
def test_loopback_addresses_are_recognized(host, is_ours):
    assert is_loopback(host) is is_ours
