"""Machines on one machine, with a delay between them: network namespaces joined by TUN devices and a forwarder.

`tc netem` needs a kernel module that is often absent, TUN devices do not. Needs root and iproute2. A forwarder in its
own process holds every packet back for the delay; it is slow at many bytes, so only latency is measured through it.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import select
import shutil
import signal
import struct
import subprocess
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # linux/if_tun.h
LARGEST_PACKET = 65_000  # bytes; few packets for much data
QUEUE = 10_000  # packets


@dataclass(frozen=True)
class Machine:
    prefix: tuple[str, ...]  # in front of a command that is to run there
    address: str
    interface: str


def can_delay() -> bool:
    return os.geteuid() == 0 and os.access("/dev/net/tun", os.R_OK | os.W_OK) and bool(shutil.which("ip"))


@contextmanager
def open_machines(machine_count: int, delay_seconds: float) -> Iterator[list[Machine]]:
    """Every packet between two of them takes `delay_seconds` one way. All is removed at the end."""
    with ExitStack() as stack:
        machines, devices = [], []
        for number in range(machine_count):
            namespace, interface = f"palaestra-{os.getpid()}-{number}", f"pal{os.getpid() % 10**7}x{number}"
            run_ip("netns", "add", namespace)
            stack.callback(run_ip, "netns", "delete", namespace)
            device = open_tun(interface)
            stack.callback(os.close, device)
            address = f"10.93.0.{number + 1}"
            run_ip("link", "set", interface, "netns", namespace)
            inside = ("-n", namespace)
            run_ip(*inside, "link", "set", "lo", "up")
            run_ip(*inside, "address", "add", f"{address}/24", "dev", interface)
            run_ip(*inside, "link", "set", interface, "mtu", str(LARGEST_PACKET), "txqueuelen", str(QUEUE), "up")
            machines.append(Machine(("ip", "netns", "exec", namespace), address, interface))
            devices.append(device)
        stack.enter_context(forwarder(devices, delay_seconds))
        yield machines


def run_ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def open_tun(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    return device


@contextmanager
def forwarder(devices: Sequence[int], delay_seconds: float) -> Iterator[None]:
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            forward(devices, delay_seconds)
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def forward(devices: Sequence[int], delay_seconds: float) -> None:
    """For ever. The last byte of an IPv4 destination says which device it is."""
    waiting: list[tuple[float, int, int, bytes]] = []  # due, order, device, packet
    numbers = count()
    while True:
        wait = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for device in select.select(devices, [], [], wait)[0]:
            packet = os.read(device, LARGEST_PACKET + 100)
            target = packet[19] - 1
            if packet[0] >> 4 == 4 and 0 <= target < len(devices):
                due = time.monotonic() + delay_seconds
                heapq.heappush(waiting, (due, next(numbers), devices[target], packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, device, packet = heapq.heappop(waiting)
            try:
                os.write(device, packet)
            except BlockingIOError:
                continue  # lost, as on a full link; TCP sends it again
