"""Trains with Paddle on trainers that may come and go: each has weights of its own, and they meet in a shared folder.

Every few steps a trainer leaves its weights there and goes on with the mean of all that are there, so nobody ever waits
for anybody. Who is started again goes on where it was. Needs nothing but paddlepaddle and PADDLE_TRAINER_ID; the folder
is $CHECKPOINTS, on a cluster a volume that all trainers mount. The data is made here.

    rank 1 step 3 loss 0.5012
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import paddle
from paddle import nn

BATCH = 32
MEET_EVERY = 5


def samples(step: int, rank: int) -> tuple[paddle.Tensor, paddle.Tensor]:
    """Make one trainer's samples of a step: the same ones in every run, other ones on every trainer."""
    paddle.seed(1_000_003 * step + rank)
    x = paddle.randn([BATCH, 8])
    return x, paddle.sin(x).sum(axis=1, keepdim=True)


def leave(folder: Path, rank: int, saved: dict[str, Any]) -> None:
    """Write what a trainer has, whole or not at all."""
    unfinished = folder / f".rank-{rank}.new"
    paddle.save(saved, str(unfinished))
    unfinished.rename(folder / f"rank-{rank}")


def found(folder: Path) -> dict[int, dict[str, Any]]:
    """Return what all trainers have left, by rank."""
    return {int(file.name[5:]): paddle.load(str(file)) for file in sorted(folder.glob("rank-*"))}


def average(model: nn.Layer, weights: list[dict[str, Any]]) -> None:
    mean = {name: sum(each[name] for each in weights) / len(weights) for name in weights[0]}
    model.set_state_dict(mean)


def train(folder: Path, rank: int, steps: int, pause: float) -> None:
    paddle.seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = paddle.optimizer.SGD(0.05, parameters=model.parameters())
    losses: list[float] = []
    if (own := found(folder).get(rank)) is not None:
        losses = own["losses"]
        model.set_state_dict(own["weights"])
        print(f"rank {rank} goes on after step {len(losses)}", flush=True)
    for step in range(len(losses) + 1, steps + 1):
        x, y = samples(step, rank)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
        if step % MEET_EVERY == 0:
            leave(folder, rank, {"losses": losses, "weights": model.state_dict()})
            average(model, [each["weights"] for each in found(folder).values()])
        print(f"rank {rank} step {step} loss {losses[-1]:.4f}", flush=True)
        time.sleep(pause)
    if sum(losses[-5:]) >= sum(losses[:5]):
        sys.exit(f"rank {rank}: the loss did not fall ({losses[0]:.4f} to {losses[-1]:.4f})")
    print(f"rank {rank} final loss {losses[-1]:.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--step-seconds", type=float, default=0.05)
    options = parser.parse_args()
    paddle.set_device("cpu")
    folder = Path(os.environ.get("CHECKPOINTS") or Path(tempfile.gettempdir()) / f"checkpoints-{os.getuid()}")
    folder = folder / os.environ.get("PADDLE_JOB_NAME", "alone")
    folder.mkdir(parents=True, exist_ok=True)
    train(folder, int(os.environ.get("PADDLE_TRAINER_ID", "0")), options.steps, options.step_seconds)


if __name__ == "__main__":
    main()
