"""Trains a small network with DistributedDataParallel on a fixed number of ranks, and checks what it is told.

Needs nothing but torch and the environment every PyTorchJob replica has: MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE.
The data is made here. Each rank sees other samples; after every backward pass all ranks must hold the same gradient,
and once it is compared with the mean of the gradients each rank has computed alone.

    step 3 rank 1 loss 0.5012 world 4
"""

import argparse
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", "20")))
    parser.add_argument("--step-seconds", type=float, default=float(os.environ.get("STEP_SECONDS", "0")))
    parser.add_argument("--batch", type=int, default=32, help="samples per rank and step")
    return parser.parse_args()


def samples(step: int, rank: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Make this rank's samples of a step: the same ones in every run, other ones on every rank."""
    random = torch.Generator().manual_seed(1_000_003 * step + rank)
    x = torch.randn(count, 8, generator=random)
    return x, torch.sin(x).sum(dim=1, keepdim=True)


def gradient(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def check_mean(model: DistributedDataParallel, x: torch.Tensor, y: torch.Tensor) -> None:
    """Compare what DDP puts into .grad with the mean over all ranks, computed by hand."""
    with model.no_sync():
        nn.functional.mse_loss(model(x), y).backward()
    by_hand = gradient(model).clone()
    dist.all_reduce(by_hand)
    by_hand /= dist.get_world_size()
    model.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    if not torch.allclose(gradient(model), by_hand, atol=1e-5):
        sys.exit(f"rank {dist.get_rank()}: the gradient is not the mean over {dist.get_world_size()} ranks")
    model.zero_grad()


def check_agreement(step: int, model: nn.Module) -> None:
    """Fail unless every rank holds the very same gradient."""
    mine = gradient(model)
    everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, mine)
    for rank, theirs in enumerate(everyone):
        if not torch.equal(mine, theirs):
            sys.exit(f"step {step}: ranks {dist.get_rank()} and {rank} disagree on the gradient")


def main() -> None:
    options = arguments()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()

    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    check_mean(model, *samples(0, rank, options.batch))
    losses = []
    for step in range(1, options.steps + 1):
        x, y = samples(step, rank, options.batch)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        check_agreement(step, model)
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / world)
        print(f"step {step} rank {rank} loss {losses[-1]:.4f} world {world}", flush=True)
        time.sleep(options.step_seconds)

    third = max(1, len(losses) // 3)
    first, last = sum(losses[:third]) / third, sum(losses[-third:]) / third
    if len(losses) >= 6 and last >= first:
        sys.exit(f"rank {rank}: the loss did not fall ({first:.4f} to {last:.4f})")
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        print(f"done steps {options.steps} loss {losses[0]:.4f} to {losses[-1]:.4f}, {world} ranks agree", flush=True)


if __name__ == "__main__":
    main()
