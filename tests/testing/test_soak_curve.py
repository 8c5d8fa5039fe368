import xml.etree.ElementTree as ET

from palaestra.testing.soak_curve import LEFT, PANEL, PANELS, WIDTH, curve

NAME = "{http://www.w3.org/2000/svg}"


def found(*rows):
    first = {"second": 0.0, "fault": "", "rss_mb": 60.0, "descriptors": 14}
    keys = ("second", "fault", "rss_mb", "descriptors", "recovered_after")
    return {"minutes": 3.0, "seed": 7, "samples": [first, *(dict(zip(keys, row, strict=True)) for row in rows)]}


def lines_of(text):
    return [line.get("points").split() for line in ET.fromstring(text).iter(f"{NAME}polyline")]


def test_every_sample_is_a_point_of_every_panel_and_heights_begin_at_nothing():
    text = curve(found((60.0, "kill_daemon", 30.0, 28, 4.0), (120.0, "freeze_daemon", 60.0, 14, 2.0)))
    memory, descriptors, recovery = lines_of(text)
    assert [len(memory), len(descriptors), len(recovery)] == [3, 3, 2]
    across, heights = zip(*(map(float, point.split(",")) for point in memory), strict=True)
    assert across == (LEFT, (LEFT + WIDTH - 10) / 2, WIDTH - 10)
    assert heights[0] == heights[2] == heights[1] - PANEL / 2, "half of the memory is half as high"


def test_where_the_daemon_was_killed_is_red_and_other_faults_are_not():
    text = curve(found((60.0, "kill_daemon", 30.0, 28, 4.0), (120.0, "freeze_daemon", 60.0, 14, 2.0)))
    colours = [path.get("stroke") for path in ET.fromstring(text).iter(f"{NAME}path")]
    assert [colours.count(colour) for colour in ("#d9534f", "#ccc")] == [len(PANELS)] * 2


def test_a_soak_that_ended_at_once_is_drawn_too():
    text = curve(found())
    assert len(lines_of(text)[0]) == 1
    assert "3 minutes, 0 faults, seed 7" in text
