"""Adds up all ranks with one allreduce, and checks the sum: the smallest program that shows that MPI is wired right.

rank 3 of 4 on allreduce-worker-1: sum 6
"""

import socket
import sys

from mpi4py import MPI


def main() -> None:
    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    total = world.allreduce(rank, op=MPI.SUM)
    sys.stdout.write(f"rank {rank} of {size} on {socket.gethostname()}: sum {total}\n")  # one write: lines stay whole
    sys.stdout.flush()
    if total != size * (size - 1) // 2:
        sys.exit(f"rank {rank}: the sum of 0 to {size - 1} is not {total}")


if __name__ == "__main__":
    main()
