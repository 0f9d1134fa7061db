"""The same training without torch: data-parallel gradient descent in plain Python, ranks talking over TCP.

It reads what a PyTorchJob tells its replicas and behaves, in kind, like torch does. With MASTER_ADDR, MASTER_PORT, RANK
and WORLD_SIZE the number of ranks is fixed, and a lost one ends all. With PET_RDZV_ENDPOINT and PET_NNODES=min:max the
ranks may come and go: the one that lives at the endpoint (worker-0) is the hub; whoever joins or is lost changes the
world at the next step; and when the hub is lost the others exit 1 and wait to be started again, like torchrun's.

Every step has a fixed batch that the ranks of the moment share out. The hub adds up the gradients and hands the sum
back, so that each rank does the same update; the sums are exact, so the result is the same for any number of ranks.

    step 42 loss 0.5012 world 3 time 1760000000.123
"""

import argparse
import json
import os
import random
import select
import signal
import socket
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

BATCH = 24
TRUTH = (1.5, -2.0, 0.5, 3.0)  # the weights to be found
RATE = 0.1
PATIENCE = 60.0  # how long a rank looks for the hub, and the hub for enough ranks to begin


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", "20")))
    parser.add_argument("--step-seconds", type=float, default=float(os.environ.get("STEP_SECONDS", "0.05")))
    parser.add_argument("--checkpoints", default=os.environ.get("CHECKPOINTS", ""), help="a folder the hub can write")
    return parser.parse_args()


# The model: y = w·x, by least squares.


def share(step: int, rank: int, world: int) -> list[tuple[list[float], float]]:
    """Make the step's batch and return this rank's part of it."""
    source = random.Random(step)
    batch = []
    for _ in range(BATCH):
        x = [source.gauss(0, 1) for _ in TRUTH]
        batch.append((x, sum(w * v for w, v in zip(TRUTH, x, strict=True)) + source.gauss(0, 0.1)))
    return batch[rank::world]


def work(weights: list[float], step: int, rank: int, world: int) -> list[Fraction]:
    """Return the sums over this rank's samples: the gradient, and the squared error at the end."""
    sums = [Fraction(0)] * (len(weights) + 1)
    for x, y in share(step, rank, world):
        error = sum(w * v for w, v in zip(weights, x, strict=True)) - y
        for i, v in enumerate(x):
            sums[i] += Fraction(2 * error * v)
        sums[-1] += Fraction(error * error)
    return sums


def descend(weights: list[float], sums: list[Fraction]) -> list[float]:
    return [w - RATE * float(s / BATCH) for w, s in zip(weights, sums[:-1], strict=True)]


# Talking: one JSON object per line. Fractions travel as text, so nothing is rounded on the way.


class Peer:
    """The other end of a connection. A peer that is gone raises ConnectionError, whatever was being done."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self.lines = connection.makefile("rb")

    def send(self, **message: Any) -> None:
        self.connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        line = self.lines.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the connection was closed")
        message: dict[str, Any] = json.loads(line)
        return message

    def close(self) -> None:
        self.lines.close()
        self.connection.close()


def fractions(texts: list[str]) -> list[Fraction]:
    return [Fraction(text) for text in texts]


def connect(host: str, port: int) -> Peer:
    """Look for the hub until it is there."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=5)
            connection.settimeout(None)
            return Peer(connection)
        except OSError as error:
            if time.monotonic() > deadline:
                sys.exit(f"nobody answers at {host}:{port} after {PATIENCE:.0f} s: {error}")
            time.sleep(0.05)


def listen(host: str, port: int) -> socket.socket | None:
    """Listen at the endpoint, or return None if that is somebody else's place."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError:
        listener.close()
        return None
    listener.listen(64)
    return listener


# What a member of either kind of job does: follow the hub.


def follow(hub: Peer, *, every_step: bool) -> None:
    """Train as the hub says: take a place, work, apply the sum, work again, until all is done."""
    weights: list[float] = []
    turn = rank = world = step = 0
    while True:
        message = hub.receive()
        if "place" in message:  # at the start, and whenever somebody has joined or was lost
            turn, rank, world, step = message["place"]
            weights = message["weights"]
            if not every_step:
                print(f"rank {rank} of {world} starts after step {step - 1}", flush=True)
        else:
            sums = fractions(message["sums"])
            weights = descend(weights, sums)
            if weights != message["weights"]:
                sys.exit(f"step {step}: rank {rank} and the hub disagree on the weights")
            if every_step:
                print(f"step {step} rank {rank} loss {float(sums[-1] / BATCH):.4f} world {world}", flush=True)
            if message["last"]:
                return
            step += 1
        hub.send(turn=turn, sums=[str(s) for s in work(weights, step, rank, world)])


class Hub:
    """Rank 0's other task: it knows who is there and adds up what they found."""

    def __init__(self, members: list[Peer]) -> None:
        self.members = members
        self.turn = 0
        self.changed = True
        """Somebody came or was lost since places were given."""

    def _drop(self, peer: Peer) -> None:
        self.members.remove(peer)
        self.changed = True
        peer.close()

    def place(self, weights: list[float], step: int) -> None:
        """Give each member its rank. What they still send about the turn before is out of date from now on."""
        self.turn, self.changed = self.turn + 1, False
        world = len(self.members) + 1
        for rank, peer in enumerate(list(self.members), 1):
            try:
                peer.send(place=[self.turn, rank, world, step], weights=weights)
            except OSError:
                self._drop(peer)

    def collect(self, sums: list[Fraction]) -> list[Fraction]:
        """Add everybody's part to the hub's own. If `changed` is set afterwards somebody was lost and parts lack."""
        for peer in list(self.members):
            try:
                part = peer.receive()
                while part["turn"] != self.turn:
                    part = peer.receive()
            except OSError:
                self._drop(peer)
            else:
                sums = [a + b for a, b in zip(sums, fractions(part["sums"]), strict=True)]
        return sums

    def hand_out(self, sums: list[Fraction], weights: list[float], *, last: bool) -> None:
        for peer in list(self.members):
            try:
                peer.send(sums=[str(s) for s in sums], weights=weights, last=last)
            except OSError:
                self._drop(peer)


# A fixed number of ranks.


def static(options: argparse.Namespace) -> None:
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if rank:
        peer = connect(host, port)
        peer.send(rank=rank)
        follow(peer, every_step=True)
        return

    listener = listen(host if host.startswith("127.") else "", port)
    if listener is None:
        sys.exit(f"port {port} is in use")
    ranked: dict[int, Peer] = {}
    while len(ranked) < world - 1:
        peer = Peer(listener.accept()[0])
        ranked[peer.receive()["rank"]] = peer
    hub = Hub([ranked[r] for r in sorted(ranked)])
    weights, losses = [0.0] * len(TRUTH), []
    hub.place(weights, 1)
    for step in range(1, options.steps + 1):
        sums = hub.collect(work(weights, step, 0, world))
        if hub.changed:
            raise ConnectionError("a rank was lost")
        weights = descend(weights, sums)
        losses.append(float(sums[-1] / BATCH))
        print(f"step {step} rank 0 loss {losses[-1]:.4f} world {world}", flush=True)
        time.sleep(options.step_seconds)
        hub.hand_out(sums, weights, last=step == options.steps)
    if len(losses) >= 6 and losses[-1] >= losses[0]:
        sys.exit(f"the loss did not fall ({losses[0]:.4f} to {losses[-1]:.4f})")
    print(f"done steps {len(losses)} loss {losses[0]:.4f} to {losses[-1]:.4f}, {world} ranks agree", flush=True)


# A number of ranks that changes.


def checkpoint_file(folder: str) -> Path:
    """Return this run's own file: its name carries the rendezvous id, so a new run never resumes an old one."""
    place = Path(folder) if folder else Path(tempfile.gettempdir()) / f"checkpoints-{os.getuid()}"
    place.mkdir(parents=True, exist_ok=True)
    return place / f"{os.environ.get('PET_RDZV_ID', 'alone').replace('/', '-')}.json"


def save(path: Path, state: dict[str, Any]) -> None:
    """Replace the file in one go: a hub that is killed here leaves the old one whole."""
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(state))
    fresh.replace(path)


def welcome(hub: Hub, listener: socket.socket, least: int, most: int) -> None:
    """Let in whoever is at the door, and wait there while too few are here. Surplus ones stay outside."""
    deadline = time.monotonic() + 10 * PATIENCE
    while len(hub.members) + 1 < most:
        short = len(hub.members) + 1 < least
        if not select.select([listener], [], [], max(0.0, deadline - time.monotonic()) if short else 0)[0]:
            if short:
                sys.exit(f"{len(hub.members) + 1} ranks are here, {least} are needed")
            return
        hub.members.append(Peer(listener.accept()[0]))
        hub.changed = True


def lead(options: argparse.Namespace, listener: socket.socket, least: int, most: int) -> None:
    """Be the hub: share out each step among those who are there, save it, print it."""
    path = checkpoint_file(options.checkpoints)
    fresh = {"weights": [0.0] * len(TRUTH), "worlds": [], "losses": []}
    state: dict[str, Any] = json.loads(path.read_text()) if path.exists() else fresh
    weights: list[float] = state["weights"]
    worlds: list[int] = state["worlds"]  # the world size of every step done: its length is the count
    losses: list[float] = state["losses"]
    hub = Hub([])
    while len(worlds) < options.steps:
        welcome(hub, listener, least, most)
        step, world = len(worlds) + 1, len(hub.members) + 1
        if hub.changed:
            print(f"rank 0 of {world} starts after step {step - 1}", flush=True)
            hub.place(weights, step)
        sums = hub.collect(work(weights, step, 0, world))
        if hub.changed:
            print(f"step {step} begins again: {world - 1 - len(hub.members)} of {world} ranks were lost", flush=True)
            continue
        weights = descend(weights, sums)
        worlds, losses = [*worlds, world], [*losses, float(sums[-1] / BATCH)]
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # not between the save and the print
        save(path, {"weights": weights, "worlds": worlds, "losses": losses})
        print(f"step {step} loss {losses[-1]:.4f} world {world} time {time.time():.3f}", flush=True)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        time.sleep(options.step_seconds)
        hub.hand_out(sums, weights, last=step == options.steps)
    sizes = ",".join(str(w) for w in sorted(set(worlds)))
    print(f"done steps {len(worlds)} loss {losses[0]:.4f} to {losses[-1]:.4f} worlds {sizes}", flush=True)


def elastic(options: argparse.Namespace) -> None:
    host, _, port = os.environ["PET_RDZV_ENDPOINT"].rpartition(":")
    least, _, most = os.environ["PET_NNODES"].partition(":")
    conf = dict(pair.split("=", 1) for pair in os.environ.get("PET_RDZV_CONF", "").split(",") if "=" in pair)
    # Only one pod has the endpoint's address and can listen there; is_host settles it where all share one address.
    listener = None if conf.get("is_host") == "0" else listen(host, int(port))
    if listener is None and conf.get("is_host") == "1":
        sys.exit(f"{host}:{port} cannot be listened at")
    if listener is None:
        follow(connect(host, int(port)), every_step=False)
    else:
        lead(options, listener, int(least), int(most or least))


def main() -> None:
    options = arguments()
    try:
        if "PET_RDZV_ENDPOINT" in os.environ:
            elastic(options)
        else:
            static(options)
    except OSError as error:
        sys.exit(f"stops: {error}")


if __name__ == "__main__":
    main()
