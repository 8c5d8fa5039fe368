"""The live tab: what it asks for, shows, counts and saves. Where that says more, the tests play the daemon's end."""

from __future__ import annotations

import base64
import io
import json
import re
import struct

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from palaestra.apps.arena.batch import make_batch
from palaestra.apps.arena.draw import draw_world
from palaestra.apps.arena.encoding import encode_full
from palaestra.apps.arena.observe import empty_rows
from palaestra.apps.arena.settings import read_settings

pytestmark = [pytest.mark.slow, pytest.mark.full]

HEADER = struct.Struct("<2sBBHHHxxxxxxQQQddd")
WIDTH, HEIGHT = 48, 32


def message(codec, body, slot=0, sequence=1, width=0, height=0, length=61):
    return HEADER.pack(b"PF", 1, codec, slot, width, height, sequence, 99, length, 1.0, 1.0, 61.5) + body


def red(slot=0, sequence=1):
    stream = io.BytesIO()
    Image.new("RGB", (WIDTH, HEIGHT), (200, 30, 30)).save(stream, "JPEG", quality=95)
    return message(1, stream.getvalue(), slot, sequence, WIDTH, HEIGHT)


class Server:
    """Stands in for the frames socket of the daemon."""

    def __init__(self, page, slots=2):
        self.heard, self.sockets = [], []
        self.slots = slots
        page.route_web_socket(re.compile("/frames"), self._opened)

    def _opened(self, socket):
        self.sockets.append(socket)
        socket.on_message(lambda text: self.heard.append(json.loads(text)))
        self.tell({"state": "connected", "reason": "", "role": "train"})
        self.tell({"hud": self.hud()})

    def hud(self, **more):
        line = {"line": "first | step 12,288 | 4,941 steps/s", "role": "train", "slots": self.slots, "step": 12288}
        return {**line, "steps_per_second": 4941, "cost": 0.01, "sent": 0, "skipped": 0, "dropped": 0, **more}

    def tell(self, word):
        self.sockets[-1].send(json.dumps(word))

    def send(self, data):
        self.sockets[-1].send(data)

    @property
    def acknowledged(self):
        return sum(word.get("ack", 0) for word in self.heard)

    @property
    def wanted(self):
        return [word["slots"] for word in self.heard if "slots" in word]


def wait_until(page, is_so):
    for _ in range(300):
        if is_so():
            return
        page.wait_for_timeout(50)
    raise AssertionError("it did not come to that")


@pytest.fixture
def watched(open_page, trained):
    """A page on the live tab of a run, and whoever plays the daemon."""

    def make(slots=2, query="", prepare=lambda _page: None):
        page = open_page("#/system")
        prepare(page)
        server = Server(page, slots)
        page.goto(page.url.split("#")[0] + f"#/run/{trained[0]}/live{query}")
        expect(page.locator("figure").first).to_be_visible()
        return page, server

    return make


def picture_of(page, tile=0):
    url = page.locator("figure canvas").nth(tile).evaluate("canvas => canvas.toDataURL()")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(url.split(",")[1]))).convert("RGB"), np.int16)


def test_a_frame_is_shown_with_its_numbers_and_acknowledged(watched):
    page, server = watched()
    server.send(red())
    expect(page.locator("figcaption").first).to_contain_text("reward 1 · return 61.50 · length 61")
    image = picture_of(page)
    assert image.shape == (HEIGHT, WIDTH, 3)
    assert np.abs(image - (200, 30, 30)).max() < 12
    wait_until(page, lambda: server.acknowledged == 1)
    expect(page.get_by_test_id("hud")).to_contain_text("first | step 12,288 | 4,941 steps/s")
    expect(page.get_by_role("main")).to_contain_text("connected")


def test_what_is_no_frame_is_counted_acknowledged_and_not_shown(watched):
    page, server = watched()
    whole = red()
    world = message(2, b"AR\x01\x00" + bytes(80))
    lies = bytearray(whole)
    lies[6:8] = (WIDTH + 1).to_bytes(2, "little")
    garbage = [b"", b"PF", whole[:64], b"XX" + whole[2:], whole[:64] + b"\xff\xd8 no jpeg", world, bytes(lies)]
    for data in garbage:
        server.send(data)
    wait_until(page, lambda: server.acknowledged == len(garbage))
    expect(page.get_by_test_id("hud")).to_contain_text(f"{len(garbage)} damaged, not shown")
    expect(page.locator("figcaption").first).to_contain_text("waiting for frames")
    server.send(whole)
    expect(page.locator("figcaption").first).to_contain_text("return 61.50")


def test_arena_is_drawn_in_the_browser_as_it_is_drawn_in_python(watched):
    settings = read_settings({"agents": 12, "width": 16, "height": 16})
    worlds, observed = make_batch([settings], 1), empty_rows(settings, settings.agents)
    worlds.reset([0], [5], [0], observed)
    rewards, rng = np.zeros(settings.agents, np.float32), np.random.default_rng(0)
    for _ in range(40):
        worlds.step(rng.integers(6, size=settings.agents), observed, rewards)
    state = worlds.world_state(0)
    page, server = watched(slots=1)
    server.send(message(2, encode_full(state, 1)))
    expect(page.locator("figcaption").first).to_contain_text("return 61.50")
    ours = picture_of(page)
    cell = ours.shape[0] // 16
    assert ours.shape == (16 * cell, 16 * cell, 3)
    theirs = draw_world(state, 16 * cell).astype(np.int16)

    def means(image):
        return image.reshape(16, cell, 16, cell, 3).mean((1, 3))

    apart = np.abs(means(ours) - means(theirs)).max(-1)
    assert np.median(apart) < 3
    assert apart.max() < 24  # pebbles and soft edges fall differently; another thing would be far off
    agent = state.agents[0]
    assert np.abs(means(ours)[agent[0], agent[1]] - means(ours)[0, 0]).max() > 24


def test_the_grid_limit_decides_what_is_requested_and_pages_show_the_rest(watched):
    page, server = watched(slots=10)
    page.get_by_label("Tiles").select_option("4")
    expect(page.locator("figure")).to_have_count(4)
    wait_until(page, lambda: server.wanted[-1] == [0, 1, 2, 3])
    page.get_by_role("button", name="Next").click()
    wait_until(page, lambda: server.wanted[-1] == [4, 5, 6, 7])
    page.get_by_role("button", name="Next").click()
    expect(page.locator("figure")).to_have_count(2)
    page.get_by_label("Rate").select_option("5")
    wait_until(page, lambda: server.heard[-1].get("fps") == 5)
    page.get_by_label("Size").select_option("640")
    wait_until(page, lambda: server.heard[-1].get("side") == 640)
    page.reload()
    expect(page.get_by_label("Tiles")).to_have_value("4")  # it is remembered


def test_a_click_makes_one_tile_large_and_escape_brings_the_others_back(watched):
    page, server = watched(slots=3)
    server.send(red(slot=1))
    page.get_by_role("button", name=re.compile("^#1")).click()
    expect(page.locator("figure")).to_have_count(1)
    wait_until(page, lambda: server.wanted[-1] == [1])
    page.keyboard.press("ArrowRight")
    wait_until(page, lambda: server.wanted[-1] == [2])
    page.keyboard.press("Escape")
    expect(page.locator("figure")).to_have_count(3)


def test_the_best_tiles_can_stand_first(watched):
    page, server = watched(slots=2)
    server.send(red(slot=1))
    page.get_by_label("Order").select_option("return")
    expect(page.locator("figcaption strong").first).to_have_text("#1", timeout=10_000)


def test_paused_or_hidden_nothing_is_requested(watched):
    def prepare(page):
        page.context.add_init_script(
            "globalThis.hide = (is) => { Object.defineProperty(document, 'hidden', { value: is, configurable: true });"
            " document.dispatchEvent(new Event('visibilitychange')); };"
        )
        page.reload()

    page, server = watched(prepare=prepare)
    wait_until(page, lambda: server.wanted[-1:] == [[0, 1]])
    page.get_by_role("button", name="Pause").click()
    wait_until(page, lambda: server.wanted[-1] == [])
    page.get_by_role("button", name="Go on").click()
    wait_until(page, lambda: server.wanted[-1] == [0, 1])
    page.evaluate("() => hide(true)")
    wait_until(page, lambda: server.wanted[-1] == [])
    page.evaluate("() => hide(false)")
    wait_until(page, lambda: server.wanted[-1] == [0, 1])


@pytest.mark.parametrize(
    ("state", "why", "words"),
    [
        ("unavailable", "The run has no frame buffer yet.", "unavailable"),
        ("stale", "No step for 12 s.", "stale"),
        ("closed", "The run has ended.", "closed"),
        ("failed", "RuntimeError: no display", "no frames"),
    ],
)
def test_every_state_is_reported_in_words_with_the_reason(watched, state, why, words):
    page, server = watched()
    server.send(red())
    expect(page.locator("figcaption").first).to_contain_text("return 61.50")
    server.tell({"state": state, "reason": why, "role": "train"})
    expect(page.locator(".state")).to_have_text(re.compile(f"{words}\\s*{re.escape(why)}"))


def test_of_a_run_that_has_ended_no_empty_boxes_are_shown(watched):
    page, server = watched(slots=16)
    expect(page.locator("figure")).to_have_count(16)
    server.tell({"state": "closed", "reason": "The run has ended.", "role": "train"})
    expect(page.get_by_role("heading", name="This run has ended")).to_be_visible()
    expect(page.locator("figure")).to_have_count(0)
    expect(page.get_by_role("main")).not_to_contain_text(" left")


def test_the_socket_comes_back_by_itself_and_says_again_what_is_wanted(watched):
    page, server = watched()
    wait_until(page, lambda: server.wanted[-1:] == [[0, 1]])
    server.sockets[-1].close(code=1011, reason="gone")
    wait_until(page, lambda: len(server.sockets) == 2)
    server.heard.clear()
    server.send(red())
    expect(page.locator("figcaption").first).to_contain_text("return 61.50")
    expect(page.locator(".state")).to_contain_text("connected")


def test_a_snapshot_and_a_video_are_saved(watched):
    page, server = watched()
    for slot in (0, 1):
        server.send(red(slot))
    expect(page.locator("figcaption").nth(1)).to_contain_text("return 61.50")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Snapshot").click()
    assert saved.value.suggested_filename == "twin-1-step12288.png"
    image = np.asarray(Image.open(saved.value.path()).convert("RGB"), np.int16)
    assert np.abs(image[HEIGHT // 2, image.shape[1] // 4] - (200, 30, 30)).max() < 12
    page.get_by_role("button", name="Record").click()
    page.wait_for_timeout(1500)  # that long is the film
    with page.expect_download() as saved:
        page.get_by_role("button", name="Stop and save").click()
    assert saved.value.suggested_filename.endswith(".webm")
    assert saved.value.path().read_bytes()[:4] == b"\x1a\x45\xdf\xa3"


def test_a_training_is_watched_while_it_trains_and_is_closed_when_it_ends(open_page, serving, train):
    run = train("watched", total_steps=3_000_000)
    serving.wait_for(run, "running")
    page = open_page(f"#/run/{run}/live")
    expect(page.locator("figure")).to_have_count(8, timeout=60_000)
    expect(page.locator("figcaption").first).to_contain_text(re.compile(r"len(gth)? \d"), timeout=60_000)
    expect(page.get_by_test_id("hud")).to_contain_text(re.compile(r"watched \| step [\d,]+ \| [\d,]+ steps/s"))
    serving.ask(f"/api/runs/{run}/stop", {"grace_seconds": 20})
    expect(page.locator(".state")).to_contain_text("closed", timeout=60_000)
