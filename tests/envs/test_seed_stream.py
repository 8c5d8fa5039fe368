from palaestra.envs.seed_stream import SeedStream


def test_its_numbers_are_the_published_ones_of_splitmix64():
    """As Vigna's reference program prints them for the seed 1234567."""
    stream = SeedStream(1234567)
    assert [stream.next() for _ in range(3)] == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_its_state_is_all_there_is():
    stream = SeedStream(5)
    stream.next()
    other = SeedStream(stream.state)
    assert [other.next() for _ in range(3)] == [stream.next() for _ in range(3)]


def test_neighbouring_seeds_share_nothing():
    drawn = [
        number for seed in range(100) for stream in [SeedStream(seed)] for number in (stream.next(), stream.next())
    ]
    assert len(set(drawn)) == 200
