"""Trains a small model with TensorFlow's MultiWorkerMirroredStrategy: all hold the weights, gradients are summed.

Needs nothing but tensorflow-cpu and TF_CONFIG, which names all workers and says which one this is. The step is written
out, because Keras 3's `fit` cannot run under this strategy. The data is made here.

    rank 1 step 3 loss 0.5012
"""

import argparse
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # before the import, which prints a page otherwise

import tensorflow as tf

BATCH = 32


def samples(step: int, rank: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Make one worker's samples of a step: the same ones in every run, other ones on every worker."""
    x = tf.random.stateless_normal((BATCH, 8), seed=(step, rank))
    return x, tf.reduce_sum(tf.sin(x), axis=1, keepdims=True)


class Model(tf.Module):
    """Two layers, as plain variables that the strategy mirrors."""

    def __init__(self) -> None:
        self.hidden = tf.Variable(tf.random.stateless_normal((8, 32), seed=(0, 1)) * 0.3)
        self.output = tf.Variable(tf.random.stateless_normal((32, 1), seed=(0, 2)) * 0.3)

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        return tf.tanh(x @ self.hidden) @ self.output


def train(strategy: tf.distribute.Strategy, steps: int) -> list[float]:
    resolver = strategy.cluster_resolver
    rank = resolver.task_id or 0
    with strategy.scope():
        model = Model()

    @tf.function
    def replica_step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y)) / strategy.num_replicas_in_sync
        variables = model.trainable_variables
        gradients = tape.gradient(loss, variables)
        context = tf.distribute.get_replica_context()
        for variable, gradient in zip(variables, context.all_reduce("SUM", gradients), strict=True):
            variable.assign_sub(0.05 * gradient)
        return loss

    losses = []
    for step in range(1, steps + 1):
        loss = strategy.reduce("SUM", strategy.run(replica_step, samples(step, rank)), axis=None)
        losses.append(float(loss))
        print(f"rank {rank} step {step} loss {losses[-1]:.4f}", flush=True)
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    losses = train(strategy, options.steps)
    rank = strategy.cluster_resolver.task_id or 0
    if sum(losses[-5:]) >= sum(losses[:5]):
        sys.exit(f"rank {rank}: the loss did not fall ({losses[0]:.4f} to {losses[-1]:.4f})")
    print(f"rank {rank} final loss {losses[-1]:.4f}", flush=True)


if __name__ == "__main__":
    main()
