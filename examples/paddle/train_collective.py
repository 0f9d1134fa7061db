"""Trains a small model with Paddle's collective mode: every trainer holds all weights, gradients are averaged.

Needs nothing but paddlepaddle 3 and PADDLE_TRAINER_ID, PADDLE_TRAINERS_NUM, PADDLE_CURRENT_ENDPOINT and
PADDLE_TRAINER_ENDPOINTS; a single trainer needs none of them. The data is made here.

    rank 1 step 3 loss 0.5012
"""

import argparse
import os
import sys

os.environ.setdefault("PADDLE_DISTRI_BACKEND", "gloo")  # else a CPU build has no global group to train in

import paddle
import paddle.distributed as dist
from paddle import nn

BATCH = 32


def samples(step: int, rank: int) -> tuple[paddle.Tensor, paddle.Tensor]:
    """Make one trainer's samples of a step: the same ones in every run, other ones on every trainer."""
    paddle.seed(1_000_003 * step + rank)
    x = paddle.randn([BATCH, 8])
    return x, paddle.sin(x).sum(axis=1, keepdim=True)


def train(rank: int, world: int, steps: int) -> list[float]:
    paddle.seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = paddle.optimizer.SGD(0.05, parameters=model.parameters())
    losses = []
    for step in range(1, steps + 1):
        x, y = samples(step, rank)
        loss = nn.functional.mse_loss(model(x), y) / world
        loss.backward()
        mean = loss.detach()
        if world > 1:
            for part in (*(parameter.grad for parameter in model.parameters()), mean):
                dist.all_reduce(part)
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(mean))
        print(f"rank {rank} step {step} loss {losses[-1]:.4f}", flush=True)
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    paddle.set_device("cpu")
    dist.init_parallel_env()
    rank, world = dist.get_rank(), dist.get_world_size()
    losses = train(rank, world, options.steps)
    if sum(losses[-5:]) >= sum(losses[:5]):
        sys.exit(f"rank {rank}: the loss did not fall ({losses[0]:.4f} to {losses[-1]:.4f})")
    print(f"rank {rank} final loss {losses[-1]:.4f}", flush=True)


if __name__ == "__main__":
    main()
