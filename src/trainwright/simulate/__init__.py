"""The same decisions under a virtual clock: what a policy would do on a cluster and a job mix from a file.

`scenario` is the format of that file, `run` lives through it, `result` measures it, `picture` and `timeline` draw it.
The planner is the shipped one; the scheduler, the pods and the nodes are models. Everything random comes from the seed.
"""

from trainwright.simulate.result import Figures, JobResult, Result, average, simulate
from trainwright.simulate.scenario import Scenario, problems, read

__all__ = ["Figures", "JobResult", "Result", "Scenario", "average", "problems", "read", "simulate"]
