"""Trains a small model with Paddle's parameter servers: servers hold the weights that trainers change.

Needs paddlepaddle 2.6 (3.x has no parameter servers) and the environment that names the roles: TRAINING_ROLE is TRAINER
or PSERVER; PADDLE_PSERVERS_IP_PORT_LIST and PADDLE_TRAINERS_NUM say who else there is; a trainer has its
PADDLE_TRAINER_ID, a server its POD_IP and PADDLE_PORT. Servers serve until they are killed, so
the job must be complete when its trainers are.

    rank 1 step 3 loss 0.5012
"""

from __future__ import annotations  # Paddle 2.6 runs on Python 3.10

import argparse
import sys
import time

import numpy as np
import paddle
from paddle.distributed import fleet

BATCH = 32


def samples(step: int, rank: int) -> dict[str, np.ndarray]:
    """Make one trainer's samples of a step: the same ones in every run, other ones on every trainer."""
    x = np.random.default_rng([step, rank]).normal(size=(BATCH, 8)).astype("float32")
    return {"x": x, "y": np.sin(x).sum(axis=1, keepdims=True)}


def model() -> paddle.static.Variable:
    """Describe the model and return its loss; parameter servers know static programs only."""
    x = paddle.static.data("x", [None, 8], "float32")
    y = paddle.static.data("y", [None, 1], "float32")
    hidden = paddle.static.nn.fc(x, 32, activation="tanh")
    return paddle.mean(paddle.square(paddle.static.nn.fc(hidden, 1) - y))


def train(loss: paddle.static.Variable, rank: int, steps: int) -> list[float]:
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    fleet.init_worker()
    losses = []
    for step in range(1, steps + 1):
        (value,) = executor.run(paddle.static.default_main_program(), feed=samples(step, rank), fetch_list=[loss.name])
        losses.append(float(np.mean(value)))
        print(f"rank {rank} step {step} loss {losses[-1]:.4f}", flush=True)
        time.sleep(0.05)  # differences travel in the background: let them arrive
    fleet.stop_worker()
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    paddle.enable_static()
    paddle.seed(0)
    fleet.init(fleet.PaddleCloudRoleMaker(is_collective=False))
    loss = model()
    strategy = fleet.DistributedStrategy()
    # Trainers change weights of their own and send the difference every few steps. With 2.6 it is the only mode whose
    # weights move when an executor runs the steps: the asynchronous one never pulls, the synchronous one crashes.
    strategy.a_sync = True
    strategy.a_sync_configs = {"k_steps": 4}
    fleet.distributed_optimizer(paddle.optimizer.SGD(0.05), strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    rank = fleet.worker_index()
    losses = train(loss, rank, options.steps)
    if sum(losses[-5:]) >= sum(losses[:5]):
        sys.exit(f"rank {rank}: the loss did not fall ({losses[0]:.4f} to {losses[-1]:.4f})")
    print(f"rank {rank} final loss {losses[-1]:.4f}", flush=True)


if __name__ == "__main__":
    main()
