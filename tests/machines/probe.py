"""A small server and client for the tests: `probe.py serve PORT` and `probe.py ask HOST PORT BYTES`."""

import socket
import sys
import time


def serve(port: int) -> None:
    """Echo everything on all addresses, one connection after another."""
    with socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        print("listening", flush=True)
        while True:
            connection, _ = server.accept()
            with connection:
                while data := connection.recv(65536):
                    connection.sendall(data)


def ask(host: str, port: int, size: int) -> None:
    """Print the seconds until `size` bytes came back, without the connection's own."""
    with socket.create_connection((host, port), timeout=4) as connection:
        connection.settimeout(60)
        start = time.monotonic()
        connection.sendall(bytes(size))
        received = 0
        while received < size:
            received += len(connection.recv(65536))
        print(time.monotonic() - start)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        ask(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
