import select
import subprocess
import sys
from time import monotonic

import pytest

from palaestra.rendering.errors import InvalidRequest
from palaestra.rendering.hub import Hub, TooManyViewers
from palaestra.rendering.viewer import Viewer, ViewerRequest
from palaestra.runs.processes import is_alive


@pytest.fixture
def hub(buffers):
    made = Hub(is_alive, most_viewers=3)
    yield made
    made.close()


def test_one_bell_serves_many_lanes_and_tells_them_apart(hub, open_lane, picture, numbers):
    ready = []
    lanes_of = {name: open_lane(name) for name in ("ONE", "TWO")}
    viewers = {name: Viewer(ViewerRequest(), lambda name=name: ready.append(name)) for name in lanes_of}
    watches = {name: hub.join(name, "train", viewers[name]) for name in lanes_of}
    for name in lanes_of:
        while watches[name].take(viewers[name], monotonic()) is not None:
            pass
    ready.clear()
    writer = lanes_of["TWO"].writer
    writer.write(1, picture(5), numbers())
    writer.notify(writer.demand(monotonic()), 1)
    assert select.select([hub], [], [], 5)[0] == [hub]
    hub.on_notification()
    assert ready == ["TWO"]
    assert watches["TWO"].take(viewers["TWO"], monotonic())[4] == 1
    assert watches["ONE"].take(viewers["ONE"], monotonic()) is None


def test_a_run_that_has_not_begun_can_be_waited_for(hub, open_lane):
    viewer = Viewer()
    watch = hub.join("LATER", "train", viewer)
    assert watch.status.condition == "unavailable"
    ends = open_lane("LATER")
    hub.renew(monotonic())
    assert watch.status.condition == "connected"
    assert ends.writer.demand(monotonic()) is not None


def test_viewers_of_one_lane_share_a_watch_that_ends_with_the_last(hub, open_lane):
    open_lane()
    one, two = Viewer(), Viewer()
    watch = hub.join("RUN", "train", one)
    assert hub.join("RUN", "train", two) is watch
    hub.leave(watch, one)
    assert hub.viewer_count == 1
    hub.leave(watch, two)
    assert hub.viewer_count == 0
    assert hub.join("RUN", "train", one) is not watch


def test_one_too_many_is_refused_and_the_others_stay(hub, open_lane):
    open_lane()
    joined = [(hub.join("RUN", "train", viewer), viewer) for viewer in (Viewer(), Viewer(), Viewer())]
    with pytest.raises(TooManyViewers, match="3 are watching"):
        hub.join("RUN", "train", Viewer())
    assert hub.viewer_count == 3
    hub.leave(*joined[0])
    hub.join("RUN", "train", Viewer())


def test_a_name_that_leads_elsewhere_is_refused(hub):
    with pytest.raises(InvalidRequest):
        hub.join("../../etc/passwd", "train", Viewer())
    assert hub.viewer_count == 0


def test_rings_with_a_ticket_that_nobody_has_are_ignored(hub, open_lane, picture, numbers):
    ends, viewer = open_lane(), Viewer()
    watch = hub.join("RUN", "train", viewer)
    demand = ends.writer.demand(monotonic())
    hub.leave(watch, viewer)
    ends.writer.notify(demand, 1)
    hub.on_notification()
    assert hub.viewer_count == 0


def test_the_servers_side_loads_neither_torch_nor_gymnasium():
    rooms = ["hub", "hud", "encode", "watch", "frame_reader", "frame_buffer", "frame_writer", "pacing", "shrink"]
    code = "".join(f"import palaestra.rendering.{room}\n" for room in rooms)
    code += "import sys; print(sorted({'torch', 'gymnasium', 'pygame'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
