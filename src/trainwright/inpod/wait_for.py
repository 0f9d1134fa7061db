"""Waits until a peer's name resolves, with a bound, and says what it waits for. Standard library only.

    python wait_for.py --host mnist-master-0 --seconds 200

Exits 0 as soon as the name resolves, 1 with a sentence when it does not within the bound, 2 on a wrong call.
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


def wait(
    host: str,
    seconds: float,
    *,
    resolve: Callable[[str], object] = lambda host: socket.getaddrinfo(host, None),
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    say: Callable[[str], None] = lambda sentence: print(sentence, file=sys.stderr, flush=True),
) -> int:
    """Return 0 once `host` resolves, 1 when it has not after `seconds`."""
    start = clock()
    next_word = start + FIRST_WORD
    pause, longest = PAUSES
    while True:
        try:
            resolve(host)
        except OSError as error:
            problem = error
        else:
            return 0
        now = clock()
        if now - start >= seconds:
            say(f"{host} did not resolve within {seconds:g} s ({problem}); is its pod there, and its Service?")
            return 1
        if now >= next_word:
            next_word = now + SAY_EVERY
            say(f"waiting for the name {host} to resolve, {max(seconds - (now - start), 0):.0f} s left")
        sleep(min(pause, max(seconds - (now - start), 0.01)))
        pause = min(2 * pause, longest)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and wait."""
    parser = argparse.ArgumentParser(prog="wait_for", description="Wait until a peer's name resolves.")
    parser.add_argument("--host", required=True, help="the name to wait for")
    parser.add_argument("--seconds", type=float, default=200, help="how long to wait (default: %(default)s)")
    given = parser.parse_args(arguments)
    return wait(given.host, given.seconds)


if __name__ == "__main__":
    sys.exit(main())
