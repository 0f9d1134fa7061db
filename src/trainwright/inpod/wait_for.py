"""Waits until peers' names resolve or, with a port, until they answer; with a bound. Standard library only.

    python wait_for.py --host mnist-master-0 --seconds 200
    python wait_for.py --host mpi-worker-0.mpi --host mpi-worker-1.mpi --port 22 --seconds 600

A host may bring a port of its own, `127.0.0.1:20001`. Exits 0 as soon as every peer is there, 1 with a sentence when
one is not within the bound, 2 on a wrong call.
"""

import argparse
import socket
import sys
import time
from collections.abc import Callable, Sequence

PAUSES = (0.02, 0.5)
"""From the first pause to the longest: a name mostly resolves at once or soon."""
FIRST_WORD = 1.0
SAY_EVERY = 5.0
ANSWER_SECONDS = 2.0
"""How long a connection may take; a pod that is not there yet may not even refuse one."""


def ask(host: str, port: int | None) -> None:
    """Return if a peer is there; OSError if not."""
    if port is None:
        socket.getaddrinfo(host, None)
    else:
        socket.create_connection((host, port), ANSWER_SECONDS).close()


Peer = tuple[str, int | None]
"""A host, and the port on which it must answer; None: it is enough that its name resolves."""


def wait(
    peers: Sequence[Peer],
    seconds: float,
    *,
    ask: Callable[[str, int | None], object] = ask,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    say: Callable[[str], None] = lambda sentence: print(sentence, file=sys.stderr, flush=True),
) -> int:
    """Return 0 once every peer is there, 1 when one of them is not after `seconds`."""
    start = clock()
    next_word = start + FIRST_WORD
    for host, port in peers:
        pause, longest = PAUSES
        while problem := _refusal(ask, host, port):
            left = seconds - (clock() - start)
            if left <= 0:
                say(_gave_up(host, port, seconds, problem))
                return 1
            if clock() >= next_word:
                next_word = clock() + SAY_EVERY
                awaited = f"the name {host} to resolve" if port is None else f"{host} to answer on port {port}"
                say(f"waiting for {awaited}, {left:.0f} s left")
            sleep(min(pause, max(left, 0.01)))
            pause = min(2 * pause, longest)
    return 0


def _refusal(ask: Callable[[str, int | None], object], host: str, port: int | None) -> OSError | None:
    try:
        ask(host, port)
    except OSError as error:
        return error
    return None


def _gave_up(host: str, port: int | None, seconds: float, problem: OSError) -> str:
    if port is None:
        return f"{host} did not resolve within {seconds:g} s ({problem}); is its pod there, and its Service?"
    return f"{host} did not answer on port {port} within {seconds:g} s ({problem}); does its process listen there?"


def _peer(text: str, port: int | None) -> Peer:
    host, _, own = text.partition(":")
    return host, int(own) if own else port


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and wait."""
    parser = argparse.ArgumentParser(prog="wait_for", description="Wait until peers resolve, or answer on a port.")
    parser.add_argument("--host", action="append", required=True, help="a name to wait for; may be given again")
    parser.add_argument("--port", type=int, help="the TCP port each must answer on (default: names need only resolve)")
    parser.add_argument("--seconds", type=float, default=200, help="how long to wait (default: %(default)s)")
    given = parser.parse_args(arguments)
    return wait([_peer(text, given.port) for text in given.host], given.seconds)


if __name__ == "__main__":
    sys.exit(main())
