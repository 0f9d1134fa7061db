"""Whether a waiting job can ever start on what is offered here, and which flag would offer more."""

from collections.abc import Sequence

from trainwright.core.names import GANG_MIN_ANNOTATION
from trainwright.core.objects import Object, at
from trainwright.placement import Claim, Shortfall, allocatable, place, pod_requests, show

FLAGS = {"cpu": "--cpu", "memory": "--memory", "nvidia.com/gpu": "--gpu"}


def hopeless(job: str, pods: Sequence[Object], nodes: Sequence[Object]) -> str:
    """Say why the pods that must start together never will, on empty nodes; nothing when they might."""
    waiting = [pod for pod in pods if not at(pod, ("spec", "nodeName"))]
    if not waiting or not nodes:
        return ""
    together = max(int(at(pod, ("metadata", "annotations", GANG_MIN_ANNOTATION), "1")) for pod in waiting)
    if len(pods) < together:
        return ""
    offered = {node["metadata"]["name"]: allocatable(node) for node in nodes}
    claims = [Claim(pod["metadata"]["uid"], pod_requests(pod)) for pod in pods[:together]]
    result = place(offered, offered, claims)
    if not isinstance(result, Shortfall):
        return ""
    needed, there = show(result.resource, result.needed), show(result.resource, result.offered)
    flag = FLAGS.get(result.resource)
    more = f"offer more with {flag} {needed}, or ask for less" if flag else "ask for less in the manifest"
    who = f"{together} pods that start together need" if together > 1 else "one pod needs"
    return f"{job} can never start here: {who} {result.resource} {needed}, and {there} is offered; {more}"
