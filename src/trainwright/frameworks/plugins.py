"""Frameworks as plugins of a Volcano Job: what admission adds and refuses, and what a plugin implies for the job.

A plugin knows what kind of job it is for. So the job gets the plugins it builds on, the end of its lead task is the end
of the job, and what two plugins must agree on need be said only once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from trainwright.api import volcano_job
from trainwright.api.common import Job, Policy, Request, Role
from trainwright.api.reader import child, unknown
from trainwright.core.errors import Problem
from trainwright.core.objects import Object, at
from trainwright.frameworks import FRAMEWORKS, flags, options_of, waiting
from trainwright.frameworks.base import Framework, Net

_PATH = "spec.plugins"
PLUGINS: Mapping[str, Framework] = {
    name: row for name, row in FRAMEWORKS.items() if name not in ("torch_elastic", "mpirun", "paddle")
}
COMPLETED, COMPLETE = "TaskCompleted", "CompleteJob"


def with_needs(obj: Object) -> Object:
    """Return a job with the plugins added that those it asks for build on."""
    given = at(obj, ("spec", "plugins"))
    missing = list(_missing(given)) if isinstance(given, dict) else []
    if not missing:
        return obj
    return {**obj, "spec": {**obj["spec"], "plugins": {**given, **{name: [] for name in missing}}}}


def check(obj: Object) -> Iterator[Problem]:
    """Yield what is wrong with a job's plugins, their flags and the tasks they name."""
    tasks = _tasks(obj)
    names = [task["name"] for task in tasks]
    yield from waiting.check(at(obj, ("metadata", "annotations")), names, "metadata.annotations")
    for index, task in enumerate(tasks):
        path = f"spec.tasks[{index}].template.metadata.annotations"
        yield from waiting.check(at(task, ("template", "metadata", "annotations")), names, path)
    given = at(obj, ("spec", "plugins"))
    for name, words in given.items() if isinstance(given, dict) else ():
        path = child(_PATH, str(name))
        if name not in PLUGINS:
            yield unknown("plugin", str(name), PLUGINS, path)
            continue
        written, problems = flags.read(PLUGINS[name].options, _texts(words), path)
        yield from problems
        yield from _roles(name, PLUGINS[name].options(**written), names, path)


def complete(job: Job) -> Job:
    """Return a job with everything that its plugins imply."""
    requests = {request.framework: request for request in job.requests if request.framework in PLUGINS}
    requests |= {name: Request(name) for name in _missing(requests)}
    job = replace(job, requests=tuple(_agreed(requests).values()))
    for request in job.requests:
        row, options = PLUGINS[request.framework], options_of(request)
        job = _led(job, row.lead(job, options), request.framework)
        job = volcano_job.resizable(job, row.elastic(job, options))
    return job


def hindered(job: Job, net: Net) -> Iterator[Problem]:
    """Yield what plugins of a job cannot do where pods have no names of their own."""
    for request in job.requests if not net.names else ():
        row = PLUGINS.get(request.framework)
        if row and row.nameless:
            severity, need = row.nameless
            words = f"{need}, which isolation ports does not give them; use --isolation net"
            yield Problem(child(_PATH, row.name), words, severity)


def implied(job: Job) -> Iterator[tuple[str, str, str, str]]:
    """Yield what `complete` and admission have added to a job: the path, the value, the plugin and the reason."""
    for request in job.requests:
        row = PLUGINS.get(request.framework)
        if row is None:
            continue
        for need in row.needs:
            yield (
                child(_PATH, need),
                "[]",
                row.name,
                f"{row.name} builds on it; added unless the job asks for it itself",
            )
        role = job.role(row.lead(job, options_of(request)))
        if role is not None and _LED in role.policies:
            path = f"spec.tasks[{role.name}].policies"
            yield path, f"{COMPLETED} -> {COMPLETE}", row.name, f"the job is done when {role.name} is"


_LED = Policy(COMPLETE, (COMPLETED,))


def _missing(given: Mapping[str, Any]) -> Iterator[str]:
    needed = dict.fromkeys(need for name in given if name in PLUGINS for need in PLUGINS[name].needs)
    return (need for need in needed if need not in given)


def _tasks(obj: Object) -> list[Object]:
    tasks = at(obj, ("spec", "tasks"))
    named = [each for each in tasks if isinstance(each, dict)] if isinstance(tasks, list) else []
    return [{**task, "name": str(task.get("name") or f"default{index}")} for index, task in enumerate(named)]


def _texts(words: Any) -> list[str]:
    return [word for word in words if isinstance(word, str)] if isinstance(words, list) else []


def _roles(plugin: str, options: Any, tasks: list[str], path: str) -> Iterator[Problem]:
    """Say which tasks a plugin looks for that the job does not have; without a master mpi can do nothing."""
    for name in PLUGINS[plugin].roles:
        task = getattr(options, name)
        if not tasks or task in tasks:
            continue
        flag = flags.of(PLUGINS[plugin].options, name)
        words = f"there is no task {task!r} (there are: {', '.join(tasks)}); name the one that is meant with --{flag}"
        yield Problem(path, words, "error" if (plugin, name) == ("mpi", "master") else "warning")


def _agreed(requests: Mapping[str, Request]) -> dict[str, Request]:
    """Return requests in which mpi and ssh agree on the port and the keys: either may be the one that is told."""
    if not {"mpi", "ssh"} <= requests.keys():
        return dict(requests)
    mpi, ssh = requests["mpi"], requests["ssh"]
    ports = {plugin.framework: flags.read(PLUGINS[plugin.framework].options, plugin.flags)[0] for plugin in (mpi, ssh)}
    port = ports["ssh"].get("ssh_port") or ports["mpi"].get("port")
    ssh = replace(ssh, options={"ssh_port": port} if port else {})
    mpi = replace(mpi, options={"keys": options_of(ssh).path} | ({"port": port} if port else {}))
    return {**requests, "mpi": mpi, "ssh": ssh}


def _led(job: Job, lead: str, plugin: str) -> Job:
    """Return the job with its lead role's end as its own; what the user says about it stands."""
    role = job.role(lead)
    if role is None:
        return job
    role = role if _speaks_of_the_end(job, role) else replace(role, policies=(*role.policies, _LED))
    if plugin == "mpi" and not at(role.template, ("spec", "restartPolicy")):
        role = replace(role, restart_policy="OnFailure")
    return replace(job, roles=tuple(role if each.name == lead else each for each in job.roles))


def _speaks_of_the_end(job: Job, role: Role) -> bool:
    policies = (*role.policies, *job.run_policy.policies)
    return any(event in (COMPLETED, "*") for policy in policies for event in policy.events)
