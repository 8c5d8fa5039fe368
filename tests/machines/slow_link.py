"""A cable with delay and loss, in user space: copies Ethernet frames between two interfaces.

For kernels without `sch_netem`. Runs inside the network namespace of the switch: frames of a machine arrive at its
veth port (a packet socket) and leave through a TAP device on the bridge, and back. Both ends speak virtio-net headers,
so unfinished checksums pass as they are.

    python slow_link.py PORT TAP DELAY_MS LOSS_PERCENT SEED
"""

import fcntl
import os
import random
import select
import socket
import struct
import subprocess
import sys
import time
from collections import deque

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23
ETH_P_ALL = 0x0003
FRAME_BYTES = 70_000
MAX_QUEUED = 20_000  # frames; a real queue is finite too


def open_tap(name: str) -> int:
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
    return descriptor


def open_port(name: str) -> socket.socket:
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    port.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    port.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    port.bind((name, ETH_P_ALL))
    port.setblocking(False)
    return port


class Direction:
    """Frames on their way from one descriptor to the other, in order."""

    def __init__(self, source: int, target: int, delay: float, loss: float, rng: random.Random) -> None:
        self.source, self.target = source, target
        self.delay, self.loss, self.rng = delay, loss, rng
        self.queue: deque[tuple[float, bytes]] = deque()

    def receive(self, now: float) -> None:
        try:
            frame = os.read(self.source, FRAME_BYTES)
        except BlockingIOError:
            return
        if self.rng.random() >= self.loss and len(self.queue) < MAX_QUEUED:
            self.queue.append((now + self.delay, frame))

    def deliver(self, now: float) -> None:
        while self.queue and self.queue[0][0] <= now:
            _, frame = self.queue.popleft()
            try:
                os.write(self.target, frame)
            except OSError:
                continue  # a full or closed interface drops a frame, like a real one


def forward(directions: list[Direction]) -> None:
    poller = select.poll()
    by_source = {direction.source: direction for direction in directions}
    for source in by_source:
        poller.register(source, select.POLLIN)
    while True:
        due = min((direction.queue[0][0] for direction in directions if direction.queue), default=None)
        wait = None if due is None else max(0.0, due - time.monotonic()) * 1000
        for source, _ in poller.poll(wait):
            by_source[source].receive(time.monotonic())
        for direction in directions:
            direction.deliver(time.monotonic())


def main() -> None:
    port_name, tap_name, delay_ms, loss_percent, seed = sys.argv[1:]
    rng = random.Random(int(seed))
    tap, port = open_tap(tap_name), open_port(port_name)
    subprocess.run(["ip", "link", "set", port_name, "nomaster", "promisc", "on"], check=True)
    subprocess.run(["ip", "link", "set", tap_name, "master", "br0", "up"], check=True)
    delay, loss = float(delay_ms) / 1000, float(loss_percent) / 100
    print("ready", flush=True)
    forward([Direction(port.fileno(), tap, delay, loss, rng), Direction(tap, port.fileno(), delay, loss, rng)])


if __name__ == "__main__":
    main()
