"""Trains a small model with MXNet's dist_sync key-value store: servers hold the weights, workers push gradients.

Needs nothing but mxnet 1.9 and the DMLC_* environment. A scheduler or server becomes one by importing mxnet: the import
then serves, and ends the process with code 0 when every worker has left. So this script is the command of all three
roles, and only workers get past the import.

    rank 1 step 3 loss 0.5012
"""

from __future__ import annotations  # MXNet's newest Python is 3.8

import argparse
import sys

import mxnet as mx
from mxnet import autograd, gluon, nd

BATCH = 32


def samples(step: int, rank: int) -> tuple[nd.NDArray, nd.NDArray]:
    """Make one worker's samples of a step: the same ones in every run, other ones on every worker."""
    mx.random.seed(1_000_003 * step + rank)
    x = nd.random.normal(shape=(BATCH, 8))
    return x, nd.sin(x).sum(axis=1, keepdims=True)


def train(store: mx.kv.KVStore, steps: int) -> list[float]:
    mx.random.seed(0)
    model = gluon.nn.Sequential()
    model.add(gluon.nn.Dense(32, activation="tanh", in_units=8), gluon.nn.Dense(1, in_units=32))
    model.initialize(mx.init.Normal(0.3))
    trainer = gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=store)
    distance = gluon.loss.L2Loss()
    losses = []
    for step in range(1, steps + 1):
        x, y = samples(step, store.rank)
        with autograd.record():
            loss = distance(model(x), y).mean()
        loss.backward()
        trainer.step(store.num_workers)
        losses.append(float(loss.asscalar()))
        print(f"rank {store.rank} step {step} loss {losses[-1]:.4f}", flush=True)
    nd.waitall()  # a store that is taken down while its last pull is under way often hangs
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    store = mx.kv.create("dist_sync")
    losses = train(store, options.steps)
    rank = store.rank
    if sum(losses[-5:]) >= sum(losses[:5]):
        sys.exit(f"rank {rank}: the loss did not fall ({losses[0]:.4f} to {losses[-1]:.4f})")
    print(f"rank {rank} final loss {losses[-1]:.4f}", flush=True)


if __name__ == "__main__":
    main()
