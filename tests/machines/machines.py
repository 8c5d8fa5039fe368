"""Several machines on this one: each has its own address, host name, processes, disk and temporary folders.

    with Network(folder) as network:
        head, worker = network.add("head"), network.add("worker", host_name="loopback")
        worker.run(["ping", "-c", "1", head.address])
        job = head.start(["torchrun", ...])
        worker.kill()

A machine is a network namespace on a bridge (10.77.0.0/24 and fd00:77::/64) with its own PID, mount, UTS and IPC
namespaces. The bridge lives in a namespace of its own, so nothing of this is visible outside. The host's file system
is read-only on every machine (code and virtual environment come from there); only `/home/machine`, `/tmp` and the like
can be written, and no two machines share them. Needs root, iproute2 and util-linux.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

REPOSITORY = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
HOME = "/home/machine"
PREFIX = "palaestra"
START_SECONDS = 60.0  # of a machine, also on a busy host

HostName = Literal["resolves", "unresolved", "loopback"]


class MachineError(RuntimeError):
    """A machine cannot be built or does not react."""


def ip(*arguments: str, namespace: str = "") -> str:
    command = ["ip", *(["-n", namespace] if namespace else []), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MachineError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def reason_unavailable() -> str:
    """Why machines cannot be built here; empty where they can."""
    if sys.platform != "linux":
        return "network namespaces exist on Linux only"
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not _has_program("ip", "iproute2"):
        return "iproute2 is missing and cannot be installed with apt-get"
    for program in ("unshare", "nsenter", "setpriv"):
        if shutil.which(program) is None:
            return f"{program} (util-linux) is missing"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"namespaces are forbidden here: {tried.stderr.strip()}" if tried.returncode else ""


def _has_program(program: str, package: str) -> bool:
    return shutil.which(program) is not None or (_apt_install(package) and shutil.which(program) is not None)


def _apt_install(package: str) -> bool:
    if shutil.which("apt-get") is None:
        return False
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
    variables = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(command, env=variables, capture_output=True, check=False).returncode == 0


def reason_no_clock_offset() -> str:
    """Why a machine's clock cannot be wrong here: CLOCK_REALTIME has no namespace, so a library is compiled for it."""
    return "" if shutil.which("gcc") else "gcc is missing, which compiles wrong_clock.c"


def wait_until(condition: Callable[[], object], what: str, seconds: float = 60.0) -> float:
    """Seconds until the condition held."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > seconds:
            raise MachineError(f"waited {seconds:g} s in vain for {what}")
        time.sleep(0.05)
    return time.monotonic() - start


@dataclass(frozen=True)
class Source:
    """The code that machines run: a worktree with `src` and `.venv`. PALAESTRA_SRC names another one's `src`."""

    root: Path

    @classmethod
    def from_environment(cls) -> Source:
        named = os.environ.get("PALAESTRA_SRC", "")
        return cls(Path(named).resolve().parent if named else REPOSITORY)

    @property
    def package(self) -> Path:
        return self.root / "src" / "palaestra"

    @property
    def bin(self) -> Path:
        own = self.root / ".venv" / "bin"
        return own if own.exists() else Path(sys.executable).parent

    def compile(self) -> None:
        """Machines see the code read-only: without compiled files every process would compile all of it anew."""
        subprocess.run([self.bin / "python", "-m", "compileall", "-q", self.package], check=False)

    def copy(self, target: Path, edits: Mapping[str, Callable[[str], str]]) -> Path:
        """A copy of the package with some files changed: `{"envs/make.py": lambda text: text + "# other"}`."""
        shutil.copytree(self.package, target)
        for name, edit in edits.items():
            before = (target / name).read_text()
            after = edit(before)
            if after == before:
                raise MachineError(f"the edit of {name} changes nothing")
            (target / name).write_text(after)
        return target


class Job:
    """A command that runs on a machine; what it prints goes to two files outside of it."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path, err: Path, command: Sequence[str]) -> None:
        self.process, self.out_file, self.err_file, self.command = process, out, err, list(command)

    @property
    def out(self) -> str:
        return self.out_file.read_text(errors="replace")

    @property
    def err(self) -> str:
        return self.err_file.read_text(errors="replace")

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def wait(self, seconds: float = 120.0) -> int:
        """The exit code; negative for a signal."""
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise MachineError(
                f"still running after {seconds:g} s: {' '.join(self.command)}\n{self.out[-2000:]}{self.err[-4000:]}"
            ) from None

    def send(self, number: signal.Signals) -> None:
        """To the command itself (the direct child is nsenter)."""
        for child in psutil.Process(self.process.pid).children():
            child.send_signal(number)

    def kill(self) -> None:
        if not self.has_ended:
            for child in psutil.Process(self.process.pid).children(recursive=True):
                child.kill()
        self.process.wait(timeout=START_SECONDS)


class Machine:
    """One machine. Made by `Network.add`."""

    def __init__(
        self,
        network: Network,
        name: str,
        number: int,
        host_name: HostName,
        code: Path | None,
        disk_megabytes: int,
    ) -> None:
        self.network, self.name, self.number, self.host_name = network, name, number, host_name
        self.address, self.address6 = f"10.77.0.{number}", f"fd00:77::{number}"
        self.variables: dict[str, str] = {}  # that every command of this machine gets
        self._code, self._disk_megabytes = code, disk_megabytes
        self._folder = network.folder / name
        self.disk = self._folder / "disk"
        self.disk.mkdir(parents=True)
        self._namespace = f"{network.prefix}-{name}"
        self._port = f"p{number}"
        self._init: subprocess.Popen[str] | None = None
        self._slow_link: subprocess.Popen[str] | None = None
        self._delay_ms = self._loss_percent = 0.0
        self._jobs = 0

    @property
    def home(self) -> Path:
        """The machine's own disk as seen from the tests."""
        return Path(f"/proc/{self.pid}/root{HOME}") if self._disk_megabytes else self.disk

    @property
    def runs(self) -> Path:
        return self.home / "runs"

    @property
    def pid(self) -> int:
        """Of its first process, as the host counts."""
        if self._init is None:
            raise MachineError(f"{self.name} is off")
        return psutil.Process(self._init.pid).children()[0].pid

    @property
    def is_on(self) -> bool:
        return self._init is not None

    def boot(self) -> None:
        ip("netns", "add", self._namespace)
        switch = self.network.switch
        ip("link", "add", "eth0", "netns", self._namespace, "type", "veth", "peer", "name", self._port, "netns", switch)
        ip("addr", "add", f"{self.address}/24", "dev", "eth0", namespace=self._namespace)
        ip("-6", "addr", "add", f"{self.address6}/64", "dev", "eth0", "nodad", namespace=self._namespace)
        for interface in ("lo", "eth0"):
            ip("link", "set", interface, "up", namespace=self._namespace)
        ip("link", "set", self._port, "master", "br0", "up", namespace=switch)
        self._start_init()

    def _start_init(self) -> None:
        self.write_hosts()
        (self._folder / "hostname").write_text(f"{self.name}\n")
        (self._folder / "resolv.conf").write_text("")
        binds = [(str(self._folder / name), f"/etc/{name}") for name in ("hosts", "hostname", "resolv.conf")]
        if self._code is not None:
            binds.append((str(self._code), str(self.network.source.package)))
        settings = {
            "name": self.name,
            "disk": str(self.disk),
            "disk_megabytes": self._disk_megabytes,
            "binds": [pair for pair in binds if Path(pair[1]).exists()],
        }
        self._init = self.network.start_helper(
            self._namespace,
            ["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child"],
            HERE / "machine_init.py",
            json.dumps(settings),
        )

    def write_hosts(self) -> None:
        """/etc/hosts, in place: the machine has this very file bound."""
        (self._folder / "hosts").write_text(self.network.hosts_of(self))

    def _command(self, command: Sequence[str], variables: Mapping[str, str]) -> list[str]:
        flags = ["--net", "--mount", "--uts", "--ipc", "--pid"]
        own = {
            "PATH": f"{self.network.source.bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": HOME,
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PALAESTRA_RUNS_DIR": f"{HOME}/runs",
            **self.variables,
            **variables,
        }
        argv = [f"{name}={value}" for name, value in own.items()]
        return ["nsenter", "-t", str(self.pid), *flags, "env", "-i", "-C", HOME, *argv, *map(str, command)]

    @property
    def shell_line(self) -> str:
        """What opens a shell on this machine from any terminal of root."""
        return shlex.join(self._command(["bash", "--norc"], {"TERM": "xterm", "PS1": f"{self.name}$ "}))

    def start(self, command: Sequence[str], variables: Mapping[str, str] | None = None) -> Job:
        """Start a command; its output is in `folder/machine/N.out` and `N.err`."""
        self._jobs += 1
        out, err = (self._folder / f"{self._jobs}.{kind}" for kind in ("out", "err"))
        with out.open("wb") as out_stream, err.open("wb") as err_stream:
            process = subprocess.Popen(
                self._command(command, variables or {}),
                stdin=subprocess.DEVNULL,
                stdout=out_stream,
                stderr=err_stream,
            )
        job = Job(process, out, err, command)
        self.network.jobs.append(job)
        return job

    def run(
        self, command: Sequence[str], variables: Mapping[str, str] | None = None, seconds: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        job = self.start(command, variables)
        try:
            code = job.wait(seconds)
        finally:
            job.kill()
        return subprocess.CompletedProcess(list(command), code, job.out, job.err)

    def processes(self, *argv: str) -> list[psutil.Process]:
        """Those of this machine whose command line has all the words, oldest first; pids as the host counts."""
        if self._init is None:
            return []
        space = _pid_namespace(self.pid)
        found = []
        for process in psutil.process_iter():
            try:
                if _pid_namespace(process.pid) != space or process.status() == psutil.STATUS_ZOMBIE:
                    continue
                line = " ".join(process.cmdline())
                if all(word in line for word in argv):
                    found.append(process)
            except (psutil.Error, OSError):  # gone meanwhile, or not ours to look at
                continue
        return sorted(found, key=psutil.Process.create_time)

    def kill(self) -> None:
        """Power off: silence first (nobody is sent a FIN), then every process is gone."""
        # The cable is removed by name: sockets with unsent data keep a network namespace alive for minutes.
        ip("link", "delete", self._port, namespace=self.network.switch)
        init, self._init = self._init, None
        self._stop_slow_link()
        if init is not None:
            init.kill()
            init.wait(timeout=START_SECONDS)
        ip("netns", "delete", self._namespace)

    def reboot(self) -> None:
        """Off and on again: the disk stays, processes and temporary folders do not."""
        if self.is_on:
            self.kill()
        self.boot()

    def link_down(self, *, unplug: bool = False) -> None:
        """Nothing passes any more. `unplug`: the machine's own interface notices (no carrier)."""
        if unplug:
            ip("link", "set", self._port, "down", namespace=self.network.switch)
        else:
            ip("link", "set", self._bridge_port, "nomaster", namespace=self.network.switch)

    def link_up(self) -> None:
        ip("link", "set", self._port, "up", namespace=self.network.switch)
        ip("link", "set", self._bridge_port, "master", "br0", namespace=self.network.switch)

    def cut_for(self, seconds: float) -> None:
        """The link is down for that long; the time is the fault itself, not a wait for something."""
        self.link_down()
        time.sleep(seconds)
        self.link_up()

    @property
    def _bridge_port(self) -> str:
        return f"t{self.number}" if self._slow_link else self._port

    def delay(self, milliseconds: float) -> None:
        """Every packet to and from this machine takes that much longer (each way)."""
        self._shape(milliseconds, self._loss_percent)

    def loss(self, percent: float) -> None:
        """That share of the packets to and from this machine is dropped."""
        self._shape(self._delay_ms, percent)

    def _shape(self, delay_ms: float, loss_percent: float) -> None:
        self._delay_ms, self._loss_percent = delay_ms, loss_percent
        self._stop_slow_link()
        is_shaped = bool(delay_ms or loss_percent)
        # Loss is per packet of 1,500 bytes, as on a real cable, not per segment of 64 kB.
        ip("link", "set", "eth0", "gso_max_segs", "1" if is_shaped else "65535", namespace=self._namespace)
        if is_shaped:
            arguments = [self._port, f"t{self.number}", str(delay_ms), str(loss_percent), str(self.number)]
            self._slow_link = self.network.start_helper(self.network.switch, [], HERE / "slow_link.py", *arguments)

    def _stop_slow_link(self) -> None:
        if self._slow_link is not None:
            self._slow_link.kill()
            self._slow_link.wait(timeout=START_SECONDS)
            self._slow_link = None
            if self.is_on:
                ip("link", "set", self._port, "master", "br0", namespace=self.network.switch)

    def set_clock_offset(self, seconds: float) -> None:
        """Wall clock of commands started from now on; monotonic clocks stay true. See `reason_no_clock_offset`."""
        reason = reason_no_clock_offset()
        if reason:
            raise MachineError(reason)
        library = self.disk / "wrong_clock.so"
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, HERE / "wrong_clock.c"], check=True)
        self.variables |= {"LD_PRELOAD": f"{HOME}/{library.name}", "WRONG_CLOCK_SECONDS": str(round(seconds))}

    def fill_disk(self) -> None:
        """Until nothing fits any more; only where the disk is small (`disk_megabytes`)."""
        if not self._disk_megabytes:
            raise MachineError("give the machine a small disk first: network.add(..., disk_megabytes=50)")
        self.run(["dd", "if=/dev/zero", f"of={HOME}/filler", "bs=64k"])


def _pid_namespace(pid: int) -> Path:
    return Path(f"/proc/{pid}/ns/pid").readlink()


class Network:
    """A switch and the machines on it; leaves nothing behind, also what a crashed test left."""

    _count = 0

    def __init__(self, folder: Path, source: Source | None = None) -> None:
        Network._count += 1
        self.folder = folder
        self.source = source or Source.from_environment()
        self.prefix = f"{PREFIX}-{os.getpid()}-{Network._count}"
        self.switch = f"{self.prefix}-switch"
        self.machines: list[Machine] = []
        self.jobs: list[Job] = []

    def __enter__(self) -> Self:
        remove_leftovers()
        self.source.compile()
        ip("netns", "add", self.switch)
        ip("link", "add", "br0", "type", "bridge", "forward_delay", "0", namespace=self.switch)
        ip("link", "set", "br0", "up", namespace=self.switch)
        return self

    def __exit__(self, *_: object) -> None:
        for machine in self.machines:
            if machine.is_on:
                machine.kill()
        for job in self.jobs:
            job.process.wait(timeout=START_SECONDS)
        ip("netns", "delete", self.switch)

    def add(
        self,
        name: str,
        *,
        host_name: HostName = "resolves",
        code: Path | None = None,
        disk_megabytes: int = 0,
    ) -> Machine:
        """A machine that runs. `code`: an edited copy of the package that this machine has in place of ours."""
        machine = Machine(self, name, len(self.machines) + 1, host_name, code, disk_megabytes)
        self.machines.append(machine)
        machine.boot()
        for other in self.machines:
            other.write_hosts()
        return machine

    def hosts_of(self, machine: Machine) -> str:
        """Everybody whose name resolves; the machine's own name as its situation wants it."""
        lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
        for other in self.machines:
            if other is not machine and other.host_name != "unresolved":
                lines += [f"{other.address} {other.name}", f"{other.address6} {other.name}"]
        own = {"resolves": machine.address, "loopback": "127.0.1.1"}.get(machine.host_name)
        return "\n".join([*lines, *([f"{own} {machine.name}"] if own else [])]) + "\n"

    def start_helper(
        self, namespace: str, prefix: Sequence[str], script: Path, *arguments: str
    ) -> subprocess.Popen[str]:
        """A Python script of ours in a network namespace, ready; it dies with this process."""
        enter = ["setpriv", "--pdeathsig", "KILL", "nsenter", f"--net=/run/netns/{namespace}"]
        process = subprocess.Popen(
            [*enter, *prefix, sys.executable, "-I", str(script), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        with process.stdout:
            if process.stdout.readline() != "ready\n":
                process.kill()
                raise MachineError(f"{script.name} in {namespace} ended with {process.wait(timeout=START_SECONDS)}")
        return process


def remove_leftovers() -> list[str]:
    """Namespaces of test processes that are gone; their machines died with them."""
    removed = []
    for line in ip("netns", "list").splitlines():
        name = line.split()[0]
        owner = name.split("-")[1] if name.startswith(f"{PREFIX}-") and name.count("-") >= 3 else ""
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            ip("netns", "delete", name)
            removed.append(name)
    return removed
