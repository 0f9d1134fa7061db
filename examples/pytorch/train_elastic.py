"""Trains a small network on a number of ranks that changes while it runs: start it with torchrun.

Every step has a fixed batch that the ranks of the moment share out, so the result does not depend on how many there
were or how often they were interrupted. After each step rank 0 saves everything needed to go on; whoever (re)starts
continues from the newest save that any rank can see. A step is saved first and printed second, so that it is never
counted twice:

    step 42 loss 0.5012 world 3 time 1760000000.123
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

BATCH = 24  # divides evenly among 1, 2, 3, 4, 6 or 8 ranks


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", "100")))
    parser.add_argument("--step-seconds", type=float, default=float(os.environ.get("STEP_SECONDS", "0.1")))
    parser.add_argument("--checkpoints", default=os.environ.get("CHECKPOINTS", ""), help="a folder all ranks share")
    return parser.parse_args()


def checkpoint_file(folder: str) -> Path:
    """Return this run's own file: its name carries the rendezvous id, so a new run never resumes an old one."""
    place = Path(folder) if folder else Path(tempfile.gettempdir()) / f"checkpoints-{os.getuid()}"
    place.mkdir(parents=True, exist_ok=True)
    return place / f"{os.environ.get('TORCHELASTIC_RUN_ID', 'alone').replace('/', '-')}.pt"


def newest(path: Path) -> dict[str, Any]:
    """Return the newest state that any rank can see, to all ranks; empty at the very start."""
    mine = torch.load(path) if path.exists() else {"step": 0}
    steps: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(steps, mine["step"])
    box = [mine]
    dist.broadcast_object_list(box, src=steps.index(max(steps)))
    return box[0]


def save(path: Path, state: dict[str, Any]) -> None:
    """Replace the file in one go: a rank that is killed here leaves the old one whole."""
    fresh = path.with_suffix(f".{os.getpid()}")
    torch.save(state, fresh)
    fresh.replace(path)


def samples(step: int, rank: int, world: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Make the step's batch and return this rank's share of it."""
    random = torch.Generator().manual_seed(step)
    x = torch.randn(BATCH, 8, generator=random)
    y = torch.sin(x).sum(dim=1, keepdim=True)
    return x[rank::world], y[rank::world]


def update(model: nn.Module, momentum: list[torch.Tensor]) -> None:
    """Average the gradients over all ranks and take one step of gradient descent.

    By hand, because torch.optim and DistributedDataParallel load torch's compiler: four more seconds for each trainer
    that starts, and here trainers start again whenever somebody joins or is lost.
    """
    parameters = list(model.parameters())
    flat = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    with torch.no_grad():
        for p, speed, part in zip(parameters, momentum, flat.split([p.numel() for p in parameters]), strict=True):
            speed.mul_(0.9).add_(part.view_as(p))
            p.sub_(0.02 * speed)


def train(options: argparse.Namespace) -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    if BATCH % world:
        sys.exit(f"{world} ranks cannot share {BATCH} samples evenly; use 1, 2, 3, 4, 6 or 8")
    path = checkpoint_file(options.checkpoints)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    momentum = [torch.zeros_like(p) for p in model.parameters()]
    state = newest(path)
    if state["step"]:
        model.load_state_dict(state["model"])
        momentum = state["momentum"]
    worlds: list[int] = state.get("worlds", [])  # the world size of every step done: its length is the count
    losses: list[float] = state.get("losses", [])
    print(f"rank {rank} of {world} starts after step {state['step']}", flush=True)

    for step in range(state["step"] + 1, options.steps + 1):
        x, y = samples(step, rank, world)
        loss = nn.functional.mse_loss(model(x), y)
        model.zero_grad()
        loss.backward()
        update(model, momentum)
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        worlds, losses = [*worlds, world], [*losses, mean.item() / world]
        if rank == 0:
            # torchrun ends its trainers with SIGTERM when somebody joins: not between the save and the print.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            state = {"step": step, "model": model.state_dict(), "momentum": momentum}
            save(path, {**state, "worlds": worlds, "losses": losses})
            print(f"step {step} loss {losses[-1]:.4f} world {world} time {time.time():.3f}", flush=True)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        time.sleep(options.step_seconds)

    if len(worlds) != options.steps:
        sys.exit(f"{len(worlds)} steps were counted, not {options.steps}")
    if rank == 0:
        sizes = ",".join(str(w) for w in sorted(set(worlds)))
        print(f"done steps {len(worlds)} loss {losses[0]:.4f} to {losses[-1]:.4f} worlds {sizes}", flush=True)


def main() -> None:
    options = arguments()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    try:
        train(options)
    except RuntimeError as error:  # how gloo says that a peer went away; torchrun starts the rest of us again
        print(f"rank {dist.get_rank()} stops: {str(error).strip().splitlines()[0]}", file=sys.stderr, flush=True)
        os._exit(1)  # not sys.exit: leaving the process group would wait for the peer that is gone
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
