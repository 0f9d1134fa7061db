"""Which rank failed, in the words that each mpirun was seen to print."""

import pytest

from trainwright.reconcile.mpirun_words import fault

HOSTS = ["j-worker-0", "j-worker-1", "j-worker-2"]


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        pytest.param(
            """
prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [prterun-vm-24210@1,3]
   Exit code:    7
--------------------------------------------------------------------------
""",
            "rank 3 on j-worker-1 exited with code 7",
            id="Open MPI 5, an exit code: the host follows from the slots",
        ),
        pytest.param(
            """
prterun noticed that process rank 1 with PID 24225 on node j-worker-0 exited on
signal 9 (Killed).
""",
            "rank 1 on j-worker-0 was killed by SIGKILL",
            id="Open MPI 5, a signal, broken over two lines",
        ),
        pytest.param(
            """
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[62842,1],5]
  Exit code:    1
""",
            "rank 5 on j-worker-2 exited with code 1",
            id="Open MPI 4, an exit code",
        ),
        pytest.param(
            "mpirun noticed that process rank 2 with PID 0 on node j-worker-1 exited on signal 11 (Segfault).",
            "rank 2 on j-worker-1 was killed by SIGSEGV",
            id="Open MPI 4, a signal",
        ),
        pytest.param(
            """
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 24332 RUNNING AT j-worker-2.j.ns.svc
=   EXIT CODE: 9
=   CLEANING UP REMAINING PROCESSES
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)
""",
            "a rank on j-worker-2 was killed by SIGKILL",
            id="MPICH, a signal: it does not say which rank",
        ),
        pytest.param(
            """
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 24332 RUNNING AT j-worker-0
=   EXIT CODE: 3
""",
            "a rank on j-worker-0 exited with code 3",
            id="MPICH, an exit code",
        ),
        pytest.param(
            """
ORTE has lost communication with a remote daemon.

  HNP daemon   : [[14551,0],0] on node j-launcher
  Remote daemon: [[14551,0],2] on node j-worker-1
""",
            "j-worker-1 was lost while ranks ran there",
            id="a host that is gone",
        ),
        pytest.param("step 1 loss 0.3", "None", id="nothing of the kind"),
    ],
)
def test_fault(printed, said):
    assert str(fault(printed, HOSTS, slots=2)) == said
