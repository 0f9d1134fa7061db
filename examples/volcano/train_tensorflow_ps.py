"""Trains a small model with TensorFlow's ParameterServerStrategy: a chief hands out steps, workers do them.

Needs nothing but tensorflow-cpu and TF_CONFIG with the tasks chief, worker and ps. Workers and parameter servers serve
until they are killed: TensorFlow has no word to tell them that the chief is done. So the job must be complete when its
chief is.

    rank 0 step 3 loss 0.5012
"""

import argparse
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # before the import, which prints a page otherwise
os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")  # a worker that is not up yet is waited for

import tensorflow as tf

BATCH = 32


def serve(resolver: tf.distribute.cluster_resolver.TFConfigClusterResolver) -> None:
    """Be a worker or a parameter server, for ever."""
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    )
    print(f"{resolver.task_type} {resolver.task_id} serves", flush=True)
    server.join()


def train(resolver: tf.distribute.cluster_resolver.TFConfigClusterResolver, steps: int) -> list[float]:
    """Be the chief: schedule steps on whichever worker is free."""
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        hidden = tf.Variable(tf.random.stateless_normal((8, 32), seed=(0, 1)) * 0.3)
        output = tf.Variable(tf.random.stateless_normal((32, 1), seed=(0, 2)) * 0.3)

    @tf.function
    def replica_step(seed: tf.Tensor) -> tf.Tensor:
        x = tf.random.stateless_normal((BATCH, 8), seed=tf.stack([seed, 0]))
        y = tf.reduce_sum(tf.sin(x), axis=1, keepdims=True)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.tanh(x @ hidden) @ output - y))
        for variable, gradient in zip((hidden, output), tape.gradient(loss, (hidden, output)), strict=True):
            variable.assign_sub(0.05 * gradient)
        return loss

    @tf.function
    def worker_step(seed: tf.Tensor) -> tf.Tensor:
        return strategy.run(replica_step, args=(seed,))

    losses = []
    workers = len(resolver.cluster_spec().as_dict()["worker"])
    for step in range(1, steps + 1):
        seeds = [tf.constant(step * workers + worker) for worker in range(workers)]
        results = [coordinator.schedule(worker_step, args=(seed,)) for seed in seeds]
        coordinator.join()
        losses.append(sum(float(result.fetch()) for result in results) / workers)
        print(f"rank 0 step {step} loss {losses[-1]:.4f}", flush=True)
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        serve(resolver)
        return
    losses = train(resolver, options.steps)
    if sum(losses[-5:]) >= sum(losses[:5]):
        sys.exit(f"rank 0: the loss did not fall ({losses[0]:.4f} to {losses[-1]:.4f})")
    print(f"rank 0 final loss {losses[-1]:.4f}", flush=True)


if __name__ == "__main__":
    main()
