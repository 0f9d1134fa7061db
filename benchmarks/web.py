"""What our HTTP server costs beside uvicorn and starlette. Prints tables; docs/design/009 quotes them.

    python benchmarks/web.py            # a minute; makes an environment with uvicorn and starlette, and removes it
    python benchmarks/web.py --quick    # a twentieth of it, to see that it works

Every server is a process of its own that answers the same small JSON to GET on connections that stay. The client
sends on all its connections and then reads from all of them, so that the server always has something to do. CPU is
the server's alone.
"""

import argparse
import contextlib
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

CONNECTIONS = 8
ROUNDS = 5
_REQUEST = b"GET /apis/example/v1/things/one HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n"
_TICKS = os.sysconf("SC_CLK_TCK")

OURS = """
import asyncio, socket, sys
import msgspec
from trainwright.web.server import Server

BODY = {"kind": "Thing", "metadata": {"name": "one", "labels": {str(n): "value" for n in range(10)}}}

async def answer(exchange):
    await exchange.answer(msgspec.json.encode(BODY))

async def main():
    listener = socket.create_server(("127.0.0.1", 0))
    async with Server(listener, answer):
        print(listener.getsockname()[1], flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""

THEIRS = """
import socket, sys
import msgspec, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

BODY = {"kind": "Thing", "metadata": {"name": "one", "labels": {str(n): "value" for n in range(10)}}}

async def answer(request):
    return Response(msgspec.json.encode(BODY), media_type="application/json")

app = Starlette(routes=[Route("/apis/{group}/{version}/things/{name}", answer)])
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
print(port, flush=True)
http, loop = sys.argv[1:]
uvicorn.run(app, port=port, http=http, loop=loop, log_level="error", access_log=False, lifespan="off")
"""


@dataclass(frozen=True)
class Contender:
    """One server, and how it is started."""

    name: str
    python: str
    program: str
    words: tuple[str, ...]
    imports: str


@dataclass(frozen=True)
class Cost:
    """What so many requests took."""

    rate: float
    microseconds: float
    """Of the server's CPU, for each."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    count = 1_000 if parser.parse_args().quick else 20_000
    print(f"{platform.python_version()}, {os.cpu_count()} cores, {count} requests on {CONNECTIONS} connections\n")
    with environment() as theirs:
        contenders = (
            Contender("web.server", sys.executable, OURS, (), "trainwright.web.server"),
            Contender("uvicorn, h11", theirs, THEIRS, ("h11", "asyncio"), _STARLETTE),
            Contender("uvicorn, httptools", theirs, THEIRS, ("httptools", "asyncio"), _STARLETTE),
            Contender("uvicorn, httptools, uvloop", theirs, THEIRS, ("httptools", "uvloop"), _STARLETTE),
        )
        print("| server | requests/s | server CPU per request, µs | import, ms | resident, MB |\n|---|---|---|---|---|")
        for each, costs, resident in compared(contenders, count):
            rate = statistics.median(cost.rate for cost in costs)
            cpu = statistics.median(cost.microseconds for cost in costs)
            print(f"| {each.name} | {rate:,.0f} | {cpu:.0f} | {import_time(each):.0f} | {resident:.0f} |", flush=True)


def compared(contenders: Iterable[Contender], count: int) -> list[tuple[Contender, list[Cost], float]]:
    """Ask all servers in turn, so that whatever else the machine does is felt by each of them."""
    with contextlib.ExitStack() as stack:
        servers = [(each, *stack.enter_context(running(each))) for each in contenders]
        costs: dict[str, list[Cost]] = {each.name: [] for each in contenders}
        for _ in range(ROUNDS):
            for each, process, port in servers:
                costs[each.name].append(measure(process.pid, port, count))
        return [(each, costs[each.name], memory(process.pid)) for each, process, _ in servers]


_STARLETTE = "uvicorn, starlette.applications, starlette.responses, starlette.routing"


@contextlib.contextmanager
def environment() -> Iterator[str]:
    """Make an environment with uvicorn and starlette, and return its Python."""
    with tempfile.TemporaryDirectory(prefix="trainwright-web-") as folder:
        python = f"{folder}/bin/python"
        packages = ("uvicorn", "starlette", "h11", "httptools", "uvloop", "msgspec")
        uv = shutil.which("uv")
        make = [uv, "venv", "-q", folder] if uv else [sys.executable, "-m", "venv", folder]
        fill = [uv, "pip", "install", "-q", "--python", python] if uv else [python, "-m", "pip", "install", "-q"]
        subprocess.run(make, check=True)
        subprocess.run([*fill, *packages], check=True)
        yield python


@contextlib.contextmanager
def running(contender: Contender) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Run a server, and return it with its port."""
    command = [contender.python, "-c", contender.program, *contender.words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        port = int(process.stdout.readline())
        yield process, port
    finally:
        process.kill()
        process.communicate()


def measure(pid: int, port: int, count: int) -> Cost:
    """Ask so often, and return what it took."""
    connections = [connected(port) for _ in range(CONNECTIONS)]
    size = len(asked(connections[0]))
    began, used = time.perf_counter(), cpu_seconds(pid)
    for _ in range(count // CONNECTIONS):
        for connection in connections:
            connection.sendall(_REQUEST)
        for connection in connections:
            received(connection, size)
    wall, cpu = time.perf_counter() - began, cpu_seconds(pid) - used
    for connection in connections:
        connection.close()
    return Cost(count / wall, cpu / count * 1e6)


def connected(port: int) -> socket.socket:
    """Connect, to a server that may only just be starting."""
    for _ in range(200):
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port))
        time.sleep(0.02)
    raise SystemExit("the server did not start")


def asked(connection: socket.socket) -> bytes:
    """Ask once and return the whole answer."""
    connection.sendall(_REQUEST)
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def received(connection: socket.socket, size: int) -> None:
    while size > 0:
        size -= len(connection.recv(65536))


def cpu_seconds(pid: int) -> float:
    """Return the CPU time a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory(pid: int) -> float:
    """Return how much memory a process holds, in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) / 1000


def import_time(contender: Contender) -> float:
    """Return how long importing a server takes, beyond starting Python and asyncio, in milliseconds."""
    timed = f"began = time.perf_counter(); import {contender.imports}; print(time.perf_counter() - began)"
    command = [contender.python, "-c", f"import asyncio, time; {timed}"]
    times = [float(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(ROUNDS)]
    return statistics.median(times) * 1000


if __name__ == "__main__":
    main()
