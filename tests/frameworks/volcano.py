"""Volcano Jobs for tests: tasks as "master:1 worker:2", plugins as keywords."""

from trainwright.api import volcano_job
from trainwright.api.common import Job
from trainwright.core.objects import Object
from trainwright.frameworks import plugins


def manifest(tasks: str, **asked: list[str]) -> Object:
    """Return a job named j as a user would write it."""
    pairs = [each.split(":") for each in tasks.split()]
    template = {"spec": {"containers": [{"name": "main", "image": "x", "command": ["train"]}]}}
    return {
        "apiVersion": volcano_job.RESOURCE.api_version,
        "kind": volcano_job.RESOURCE.kind,
        "metadata": {"name": "j", "namespace": "default", "uid": "job-uid"},
        "spec": {
            "plugins": asked,
            "tasks": [{"name": name, "replicas": int(count), "template": template} for name, count in pairs],
        },
    }


def job(tasks: str, **asked: list[str]) -> Job:
    """Return such a job as decisions see it."""
    return plugins.complete(volcano_job.read(plugins.with_needs(volcano_job.default(manifest(tasks, **asked)))))
