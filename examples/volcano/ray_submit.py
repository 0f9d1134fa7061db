"""Uses a Ray cluster from a pod outside it: waits for its nodes, runs a task on each, and checks who answered.

Connects through the head's client port. The cluster serves until it is stopped, so the job must be complete when this
script is.

    rank 1 ran on ray-cluster-job-worker-0
    final 3 nodes answered
"""

import argparse
import os
import socket
import sys
import time

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", default=os.environ.get("RAY_ADDRESS"), help="ray://HEAD:10001, else $RAY_ADDRESS")
    parser.add_argument("--nodes", type=int, default=3, help="how many nodes the cluster is to have, the head included")
    parser.add_argument(
        "--patience", type=float, default=90, help="seconds to wait for the head and then for the nodes"
    )
    options = parser.parse_args()
    if not options.address:
        parser.error("where is the head? give --address ray://HEAD:10001, or set RAY_ADDRESS")
    return options


@ray.remote(num_cpus=0)
def where() -> tuple[str, str]:
    """Say on which node and host this runs."""
    return ray.get_runtime_context().get_node_id(), socket.gethostname()


def connect(address: str, patience: float) -> None:
    """Reach the head, which may still be starting."""
    deadline = time.monotonic() + patience
    while True:
        try:
            ray.init(address, log_to_driver=False)
            return
        except ConnectionError as error:
            if time.monotonic() > deadline:
                sys.exit(f"{address} did not answer within {patience:.0f} s: {error}")
            time.sleep(1)


def nodes(count: int, patience: float) -> list[str]:
    """Wait until that many nodes have joined, and return their ids."""
    deadline = time.monotonic() + patience
    while True:
        alive = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
        if len(alive) >= count:
            return alive
        if time.monotonic() > deadline:
            sys.exit(f"{len(alive)} of {count} nodes have joined within {patience:.0f} s")
        time.sleep(0.2)


def main() -> None:
    options = arguments()
    connect(options.address, options.patience)
    members = nodes(options.nodes, options.patience)
    tasks = [where.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)) for node in members]
    answers = ray.get([task.remote() for task in tasks], timeout=options.patience)
    for rank, (node, host) in enumerate(answers):
        if node != members[rank]:
            sys.exit(f"the task for node {members[rank]} ran on {node}")
        print(f"rank {rank} ran on {host}", flush=True)
    print(f"final {len(answers)} nodes answered", flush=True)


if __name__ == "__main__":
    main()
