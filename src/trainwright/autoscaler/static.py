"""The policy `static`: nobody is ever resized."""

from collections.abc import Sequence

from trainwright.autoscaler.base import Cluster, ElasticJob, Plan


def static(cluster: Cluster, jobs: Sequence[ElasticJob]) -> Plan:  # noqa: ARG001 - every policy is asked alike
    """Leave every job at its size."""
    return Plan()
