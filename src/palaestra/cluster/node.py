"""`python -m palaestra.cluster.node FLAGS…`: Ray's own `ray start`, in the foreground, ended with its parent."""

from __future__ import annotations

import ipaddress
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from palaestra.cluster.address import Address, address_towards, read_address
from palaestra.cluster.probe import probe
from palaestra.cluster.ray_runtime import QUIET, load_ray, on_loopback, private_directory, require_ray
from palaestra.cluster.token import Token, access, find_token, write_new_token
from palaestra.core.child_process import module_command, wait_for_exit
from palaestra.core.errors import RunFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from types import FrameType

LOOPBACK = "127.0.0.1"
PORT = 6379  # Ray's usual one
IPV6 = 6
STANDARD_INPUT = 0


@dataclass(frozen=True)
class NodeOptions:
    """How this machine takes part in a cluster."""

    address: Address  # of the head: our own if we are it
    is_head: bool
    cpus: int | None = None  # None: as many as there are
    gpus: int | None = None
    host: str = ""  # of this machine, where it is not the head; empty: the one on the route to the head

    def host_of_this_machine(self) -> str:
        """The address at which others reach this machine; the host name may resolve to a loopback address."""
        return self.address.host if self.is_head else self.host or address_towards(self.address)

    def arguments(self, folder: Path) -> list[str]:
        """The arguments of `ray start`, which writes below `folder`."""
        if self.is_head:
            place = ["--head", f"--port={self.address.port}", "--include-dashboard=false"]
        else:
            place = [f"--address={self.address}"]
        place += [f"--node-ip-address={self.host_of_this_machine()}"]
        amounts = [f"--num-cpus={self.cpus}"] if self.cpus is not None else []
        amounts += [f"--num-gpus={self.gpus}"] if self.gpus is not None else []
        return [*place, *amounts, f"--temp-dir={folder}", "--disable-usage-stats", "--block"]


def read_node_options(
    *, head: bool, address: str, host: str, port: int, cpus: int | None, gpus: int | None
) -> NodeOptions:
    """The options of `palaestra worker`; an empty host means the default."""
    if head and address:
        raise UsageError("--head starts a cluster and --address joins one; both were given.", "Remove one of them.")
    if address:
        if host:
            validate_own_address(host)
        return NodeOptions(read_address(address, key="--address"), is_head=False, cpus=cpus, gpus=gpus, host=host)
    if not head:
        raise UsageError(
            "Neither --head nor --address was given.",
            "'palaestra worker --head' starts one; '--address HOST:PORT' joins the one whose head is there.",
        )
    host = host or LOOPBACK
    place = read_address(f"{host}:{port}" if ":" not in host else f"[{host}]:{port}", key="--host")
    return NodeOptions(place, is_head=True, cpus=cpus, gpus=gpus)


def validate_own_address(host: str) -> None:
    """Refuses an address that this machine does not have."""
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(host).version == IPV6 else socket.AF_INET
        with closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
            probe.bind((host, 0))
    except ValueError:
        raise UsageError(
            f"--host {host!r} is not an IP address.", "Write one of this machine, as in 10.0.0.6."
        ) from None
    except OSError as error:
        raise UsageError(
            f"--host {host} is not an address of this machine: {error.strerror}.",
            "'ip address' lists them; leave --host out for the one on the route to the head.",
        ) from error


def main(arguments: Sequence[str]) -> int:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    load_ray()
    scripts: Any = import_module("ray.scripts.scripts")
    scripts.get_ray_client_dependency_error = _no_ray_client
    with on_loopback():
        scripts.start.main(args=list(arguments), standalone_mode=False)
    return 0


def _no_ray_client() -> str:
    """Keeps Ray from opening port 10001 for `ray://` addresses."""
    return "not used"


def _end_with_parent() -> None:
    """Ends with the parent, which holds standard input open; by SIGTERM, so that Ray ends its processes."""
    while os.read(STANDARD_INPUT, 1024):  # unbuffered: at Python's exit the buffer's lock must be free
        pass
    os.kill(os.getpid(), signal.SIGTERM)


START_SECONDS = 90.0
LEAVE_SECONDS = 20.0
POLL_SECONDS = 0.2
STARTED = "Ray runtime started."
ERROR_LINE = re.compile(r"\b\w*(Error|Exception|refused|failed|Failed|No space)\b")
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 15.0  # seconds between two attempts to join again
REASON_SECONDS = 2.0  # to find out whether the head is still there
# A cut link is noticed by Ray's head within about 20 s (Ray's own settings: more than a minute), and by the node's
# own process within 30 s. What the user has set goes before.
HEALTH = {
    "RAY_health_check_initial_delay_ms": "5000",
    "RAY_health_check_period_ms": "2000",
    "RAY_health_check_timeout_ms": "5000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "30",
}


class NodeProcess:
    """`ray start --block` in a session of its own, so that Ctrl-C reaches it only through this process."""

    def __init__(self, options: NodeOptions, variables: dict[str, str], folder: Path) -> None:
        self._log = folder.parent / "ray-start.log"
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                module_command("palaestra.cluster.node", *options.arguments(folder)),
                stdin=subprocess.PIPE,  # closed when this process ends, in whatever way
                stdout=output,
                stderr=output,
                env={**HEALTH, **os.environ, **QUIET, **variables, "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0"},
                start_new_session=True,
            )

    def wait_until_up(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while STARTED not in self._log_text():
            if self._process.poll() is not None:
                raise RunFailed(f"Ray did not start: {self._reason()}", "Is there room in the temporary directory?")
            if time.monotonic() > deadline:
                raise RunFailed(f"Ray did not start within {START_SECONDS:.0f} s: {self._reason()}")
            time.sleep(POLL_SECONDS)

    def wait(self) -> int:
        """Waits until it ends, which it does when the head is gone or has dropped this node."""
        return self._process.wait()

    def end(self) -> None:
        """Ends `ray start`, which ends its processes."""
        self._process.terminate()
        wait_for_exit(self._process, LEAVE_SECONDS)
        self._process.kill()
        self._process.wait()

    def _log_text(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def _reason(self) -> str:
        """The last line of the log that names an error."""
        lines = [line.strip() for line in self._log_text().splitlines() if line.strip()]
        errors = [line for line in lines if ERROR_LINE.search(line) and not line.startswith("File ")]
        return (errors or lines or ["it printed nothing"])[-1][:300]


class ClusterLeft(BaseException):
    """A signal requested that this machine leaves the cluster."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


def serve(options: NodeOptions, on_up: Callable[[], None], note: Callable[[str], None], wait: float = 0.0) -> None:
    """Takes part in the cluster until a signal raises `ClusterLeft`. A worker that loses the head joins again.

    `wait`: seconds for which the head may be missing at the start. A head that ends by itself is an error.
    """
    with leaving():
        _join_first(options, on_up, time.monotonic() + wait)
        if options.is_head:
            raise RunFailed("Ray's head on this machine ended by itself.", "Start it again: its workers come back.")
        while True:
            note(f"Lost the cluster at {options.address}: {_why_lost(options)}. Joining again as soon as it answers.")
            _join_again(options, on_up)


def _join_first(options: NodeOptions, on_up: Callable[[], None], deadline: float) -> None:
    while True:
        try:
            variables = admit(options)
            break
        except RunFailed:
            if time.monotonic() > deadline:
                raise
            time.sleep(FIRST_PAUSE)
    with _started(options, variables) as process:
        on_up()
        process.wait()


def _join_again(options: NodeOptions, on_up: Callable[[], None]) -> None:
    """Joins again; a `UsageError` ends it, every other error is retried."""
    pause = FIRST_PAUSE
    while True:
        try:
            with _started(options, admit(options)) as process:
                on_up()
                process.wait()
                return
        except RunFailed:  # reported once already
            time.sleep(pause)
            pause = min(LONGEST_PAUSE, 2 * pause)


def _why_lost(options: NodeOptions) -> str:
    try:
        socket.create_connection((options.address.host, options.address.port), REASON_SECONDS).close()
    except OSError as error:
        reason = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        return f"its head cannot be reached ({reason})"
    return "its head no longer counts this node (the link was cut, or the head was restarted)"


@contextmanager
def _started(options: NodeOptions, variables: dict[str, str]) -> Iterator[NodeProcess]:
    """Runs `ray start` for the duration of the block, which begins when Ray is up."""
    with private_directory() as folder:
        process = NodeProcess(options, variables, folder)
        try:
            process.wait_until_up()
            yield process
        finally:
            process.end()


def admit(options: NodeOptions) -> dict[str, str]:
    """Ray's environment variables for this node, or an error. A head makes a token if there is none."""
    require_ray()
    if not options.is_head:
        variables = access(options.address, os.environ)
        probe(options.address, variables, joins=True)
        return variables
    _demand_free(options)
    if os.environ.get("RAY_AUTH_MODE", "token").lower() != "token":
        raise UsageError(
            f"RAY_AUTH_MODE={os.environ['RAY_AUTH_MODE']}: anyone could run code in this cluster.",
            "Unset it: a cluster that is started here always has a token.",
        )
    head_token()
    return {"RAY_AUTH_MODE": "token"}


def head_token() -> Token:
    return find_token(os.environ) or write_new_token()


def _demand_free(options: NodeOptions) -> None:
    """Refuses a port in use; Ray would report it late and unclearly."""
    try:
        with socket.create_server((options.address.host, options.address.port)):
            return
    except OSError as error:
        raise UsageError(
            f"Cannot listen at {options.address}: {error.strerror or error}.",
            "Choose another with --port, or an address of this machine with --host.",
        ) from error


@contextmanager
def leaving() -> Iterator[None]:
    """Signals raise `ClusterLeft`."""

    def leave(number: int, _frame: FrameType | None) -> None:
        for each in ENDING:  # further signals are ignored: leaving is short and must be complete
            signal.signal(each, signal.SIG_IGN)
        raise ClusterLeft(number)

    before = {number: signal.signal(number, leave) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
