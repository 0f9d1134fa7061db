"""Trains on replicas that come and go, with nothing but Python: whoever is there takes the next share of the work.

Weights and the list of shares are one file in $CHECKPOINTS, a new folder that all replicas share; a lock lets one of
them change it at a time. A replica takes a share, works on it, adds what it has learned to the weights, and takes the
next. Told to stop, it gives its share back; what a killed one had in hand is taken again after a while. So every share
is done exactly once, however many replicas there were.

    share 42 loss 0.5012 by shares-worker-1
"""

import argparse
import fcntl
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TRUTH = (1.5, -2.0, 0.5, 3.0)  # the weights to be found
SAMPLES = 24
RATE = 0.05
PATIENCE = 15.0  # seconds after which a share counts as lost with whoever took it


class Stopped(Exception):
    """We were told to stop."""


def stop(*_: object) -> None:
    raise Stopped


@contextmanager
def shared(path: Path, shares: int) -> Iterator[dict[str, Any]]:
    """Open what all replicas share for change; a replica that is told to stop does so before or after, not within."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        with path.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            text = file.read()
            fresh = {"weights": [0.0] * len(TRUTH), "left": list(range(shares)), "taken": {}, "losses": []}
            state: dict[str, Any] = json.loads(text) if text else fresh
            yield state
            file.truncate(0)
            file.write(json.dumps(state))
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def take(state: dict[str, Any], me: str) -> str:
    """Return the next share and note who has it; nothing if others work on the last ones."""
    for share, (_, since) in list(state["taken"].items()):
        if time.time() - since > PATIENCE:
            del state["taken"][share]
            state["left"].append(int(share))
    if not state["left"]:
        return ""
    share = str(state["left"].pop(0))
    state["taken"][share] = [me, time.time()]
    return share


def learn(weights: list[float], share: str) -> tuple[list[float], float]:
    """Return by how much the weights should change for one share, and how wrong they were."""
    source = random.Random(share)
    change, wrong = [0.0] * len(weights), 0.0
    for _ in range(SAMPLES):
        x = [source.gauss(0, 1) for _ in TRUTH]
        error = sum((w - t) * v for w, t, v in zip(weights, TRUTH, x, strict=True))
        change = [c - RATE * 2 * error * v / SAMPLES for c, v in zip(change, x, strict=True)]
        wrong += error * error / SAMPLES
    return change, wrong


def train(path: Path, me: str, options: argparse.Namespace) -> None:
    while True:
        with shared(path, options.shares) as state:
            share, over = take(state, me), len(state["losses"]) == options.shares
        if over:
            losses = state["losses"]
            print(f"done shares {len(losses)} loss {losses[0]:.4f} to {losses[-1]:.4f}", flush=True)
            return
        if not share:
            time.sleep(0.1)
            continue
        try:
            change, loss = learn(state["weights"], share)
            time.sleep(options.share_seconds)
        except Stopped:
            give_back(path, share, options)
            raise
        with shared(path, options.shares) as state:
            if state["taken"].get(share, [""])[0] != me:
                continue  # it took too long, and somebody else has it
            del state["taken"][share]
            state["weights"] = [w + c for w, c in zip(state["weights"], change, strict=True)]
            state["losses"].append(loss)
        print(f"share {share} loss {loss:.4f} by {me}", flush=True)


def give_back(path: Path, share: str, options: argparse.Namespace) -> None:
    with shared(path, options.shares) as state:
        if state["taken"].pop(share, None):
            state["left"].insert(0, int(share))
    print(f"share {share} is given back", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", required=True, help="names the file, so that jobs can share a folder")
    parser.add_argument("--shares", type=int, default=200)
    parser.add_argument("--share-seconds", type=float, default=0.4)
    options = parser.parse_args()
    folder = os.environ.get("CHECKPOINTS")
    if not folder:
        sys.exit("set CHECKPOINTS to a new folder that all replicas can write: CHECKPOINTS=$(mktemp -d) tw run ...")
    Path(folder).mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, stop)
    try:
        train(Path(folder) / f"{options.job}.json", os.environ.get("HOSTNAME", "me"), options)
    except Stopped:
        sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    main()
