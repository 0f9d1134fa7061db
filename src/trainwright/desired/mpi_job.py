"""The objects of an MPIJob: hosts and agent, the launcher's rights, a Service, the workers, and the launcher last.

A v1alpha1 job has its workers in a StatefulSet, a v2beta1 job as plain pods; the launcher is a batch Job in both. Which
of them may exist yet is not decided here: the launcher is always among the objects, and whoever acts leaves it out
until the workers are ready.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

from trainwright import frameworks
from trainwright.api import mpi_job as api
from trainwright.api.common import Job, Role
from trainwright.api.mpi_job import LAUNCHER, WORKER, Sizing
from trainwright.core import names
from trainwright.core.actions import Create
from trainwright.core.errors import Problem
from trainwright.core.objects import Object, put
from trainwright.core.resources import BATCH_JOB, ROLE, ROLE_BINDING, SERVICE_ACCOUNT, STATEFUL_SET
from trainwright.desired import gangs, pods, support
from trainwright.desired.base import BuiltPod, Desired, Injection, Settings, WantedPod
from trainwright.desired.gangs import Team
from trainwright.frameworks import mpirun
from trainwright.frameworks.mpirun import Options

OPERATOR_NAME = "mpi-operator"
KUBECTL_FOLDER, KUBECTL_VOLUME = "/opt/kube", "mpi-job-kubectl"
_MASTERS = ("node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane")
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_SOURCE = "mpirun"
_ON_ONE_MACHINE = {
    "TMPDIR": ("/dev/shm", "pods share /tmp and each counts its processes from 1; /dev/shm is a pod's own"),  # noqa: S108
    "OMPI_MCA_mpi_yield_when_idle": ("1", "ranks share the cores of one machine: those that wait let the others run"),
}


def build(job: Job, settings: Settings, version: int = 0) -> Desired:
    """Return everything an MPIJob should have while it runs, the launcher included."""
    return wanted(api.read(job.object, settings.per_node), settings, version)


def wanted(job: Job, settings: Settings, version: int, launcher: Object | None = None) -> Desired:
    """Return the same of a job that was read with the sizes of the nodes; a launcher that is there stays as it is."""
    plan = _Plan(job, settings, version)
    around = (
        *plan.group(),
        *frameworks.objects(job, settings.net),
        *(plan.rights() if plan.options.transport == "exec" else ()),
        Create(plan.service()),
        *((Create(plan.stateful_set()),) if plan.has_set else ()),
        Create(launcher or plan.launcher_job()),
    )
    return Desired(around, plan.worker_pods() if plan.options.modern else (), tuple(plan.explained()))


def hindered(job: Job, settings: Settings) -> Iterator[Problem]:
    """Yield what keeps a job from running in a home: a number that its nodes do not divide, pods without names."""
    sizing = api.sizing_of(job, settings.per_node)
    if isinstance(sizing, Problem):
        yield sizing
    if not settings.net.names:
        needs = "mpirun needs pods with host names of their own, which isolation ports does not give them"
        yield Problem("spec", f"{needs}; use --isolation net")


def labels(job: Job, role: str = "") -> dict[str, str]:
    """Return the labels by which the pods of a job, or of one role of it, are selected."""
    if "mpiReplicaSpecs" in (job.object.get("spec") or {}):
        found = {names.OPERATOR_NAME_LABEL: OPERATOR_NAME, names.JOB_NAME_LABEL: job.name}
        return {**found, names.JOB_ROLE_LABEL: role.lower()} if role else found
    found = {"group_name": "kubeflow.org", "mpi_job_name": job.name}
    return {**found, "mpi_role_type": role.lower()} if role else found


def launcher_name(job: Job) -> str:
    """Return the name of the launcher's batch Job and of all that gives it its rights."""
    return f"{job.name}-launcher"


def worker_set(job: Job) -> str:
    """Return the name of the StatefulSet of the workers."""
    return f"{job.name}-worker"


@dataclass(frozen=True)
class _Plan:
    """One job and where it shall run, while its objects are made."""

    job: Job
    settings: Settings
    version: int

    @cached_property
    def options(self) -> Options:
        return Options(**self.job.requests[0].options)

    @cached_property
    def spec(self) -> api.Spec:
        return api.spec_of(self.job)

    @cached_property
    def sizing(self) -> Sizing:
        found = api.sizing_of(self.job, self.settings.per_node)
        return found if isinstance(found, Sizing) else Sizing(0, 0, "", str(found))

    @cached_property
    def has_set(self) -> bool:
        return not self.options.modern and self.job.count(WORKER) > 0

    @cached_property
    def domain(self) -> str:
        return mpirun.domain(self.job, self.options)

    # Rights

    def rights(self) -> Iterator[Create]:
        """Yield what lets the launcher look at and exec into this job's workers, and nothing else."""
        job, name, marks = self.job, launcher_name(self.job), {"app": self.job.name}
        workers = [names.pod(job.name, WORKER, index) for index in range(job.count(WORKER))]
        rules = [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": workers},
            {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"], "resourceNames": workers},
        ]
        yield Create(support.of(job, SERVICE_ACCOUNT, name, marks))
        # Without a name a rule would be about every pod of the namespace.
        yield Create({**support.of(job, ROLE, name, marks), "rules": rules if workers else []})
        account = {"kind": "ServiceAccount", "name": name, "namespace": job.namespace}
        role = {"apiGroup": ROLE.group, "kind": ROLE.kind, "name": name}
        yield Create({**support.of(job, ROLE_BINDING, name, marks), "subjects": [account], "roleRef": role})

    def service(self) -> Object:
        return support.headless_service(self.job, self.domain, labels(self.job), labels(self.job), ())

    # Workers

    def group(self) -> tuple[Create, ...]:
        """Return what makes the workers known to a scheduler as pods that start together."""
        role = self.job.role(WORKER)
        if role is None or not role.replicas:
            return ()
        workers = replace(self.job, roles=(replace(role, template=self._resting(role)),))
        return gangs.objects(workers, self.settings, [self._team(role)])

    def worker_pods(self) -> tuple[WantedPod, ...]:
        """Return the workers of a v2beta1 job: plain pods."""
        return tuple(
            _wanted(names.pod(self.job.name, WORKER, index), WORKER, index, partial(self._worker, index))
            for index in range(self.job.count(WORKER))
        )

    def stateful_set(self) -> Object:
        """Return the workers of a v1alpha1 job: a StatefulSet that starts them all at once."""
        marks = labels(self.job, WORKER)
        template = _template(self._worker(0).object)
        template["spec"] = {
            key: value for key, value in template["spec"].items() if key not in ("hostname", "subdomain")
        }
        spec = {
            "podManagementPolicy": "Parallel",
            "replicas": self.job.count(WORKER),
            "serviceName": self.domain,
            "selector": {"matchLabels": marks},
            "template": template,
        }
        return {**support.of(self.job, STATEFUL_SET, worker_set(self.job), marks), "spec": spec}

    def _worker(self, index: int) -> BuiltPod:
        role = self.job.role(WORKER)
        assert role is not None, "only jobs with workers have worker pods"
        template, rows = self._resting(role), []
        built = self._build(replace(role, template=template), index)
        name = built.object["metadata"]["name"]
        first = "spec.containers[0]"
        if template is not role.template:
            container = template["spec"]["containers"][0]
            said = " ".join([*container["command"], *container.get("args", ())])
            rows.append(
                Injection(name, f"{first}.command", said, _SOURCE, "workers wait; the launcher starts the ranks")
            )
        sizing = self.sizing
        if sizing.units:
            path = f"{first}.resources.limits[{sizing.resource}]"
            rows.append(Injection(name, path, str(sizing.units), _SOURCE, sizing.words))
        return BuiltPod(built.object, (*built.injections, *rows))

    def _resting(self, role: Role) -> Object:
        """Return a worker's template with a first container that only waits, and with the units it takes."""
        spec = role.template.get("spec") or {}
        first, *others = spec.get("containers") or [{}]
        modern = self.options.modern
        if not modern or not (first.get("command") or first.get("args")):
            ssh = self.options.transport == "ssh"
            waits: Object = {"command": ["/usr/sbin/sshd", "-De"]} if ssh else {"command": ["sleep"], "args": ["365d"]}
            first = {**{key: value for key, value in first.items() if key != "args"}, **waits}
        if self.sizing.units:
            resources = first.get("resources") or {}
            limits = {**(resources.get("limits") or {}), self.sizing.resource: self.sizing.units}
            first = {**first, "resources": {**resources, "limits": limits}}
        return {**role.template, "spec": {**spec, "containers": [first, *others]}}

    # Launcher

    def launcher_job(self) -> Object:
        """Return the batch Job that runs the user's command in the launcher's pod."""
        spec: Object = {"podReplacementPolicy": "Failed", "template": _template(self._launcher().object)}
        policy = self.job.run_policy
        if policy.backoff_limit is not None:
            spec["backoffLimit"] = policy.backoff_limit
        if policy.deadline_seconds is not None:
            spec["activeDeadlineSeconds"] = policy.deadline_seconds
        return {**support.of(self.job, BATCH_JOB, launcher_name(self.job), labels(self.job, LAUNCHER)), "spec": spec}

    def _launcher(self) -> BuiltPod:
        role = self.job.role(LAUNCHER)
        assert role is not None, "every MPIJob has a launcher"
        built = self._build(replace(role, template=self._light(role)), 0)
        name = mpirun.launcher_host(self.job)
        spec: Object = {**built.object["spec"], "hostname": name, "subdomain": self.domain}
        first, *others = spec["containers"]
        added = []
        if "terminationMessagePolicy" not in first:
            first = {**first, "terminationMessagePolicy": "FallbackToLogsOnError"}
            why = "mpirun says last which rank failed"
            added.append(("spec.containers[0].terminationMessagePolicy", "FallbackToLogsOnError", why))
        if self.options.transport == "exec":
            first = _with_kubectl(first)
            spec["serviceAccountName"] = launcher_name(self.job)
            spec["volumes"] = put(spec.get("volumes") or (), {"name": KUBECTL_VOLUME, "emptyDir": {}})
            spec["initContainers"] = put(spec.get("initContainers") or (), self._delivery())
            added.append(("spec.serviceAccountName", launcher_name(self.job), "may exec into the workers"))
            brings = "brings kubectl, which the agent calls"
            added.append(("spec.initContainers[kubectl-delivery]", KUBECTL_FOLDER, brings))
        spec["containers"] = [first, *others]
        told = [replace(each, value=name) if each.path == "spec.hostname" else each for each in built.injections]
        told += [Injection(name, path, value, _SOURCE, why) for path, value, why in added]
        return BuiltPod({**built.object, "spec": spec}, tuple(replace(each, pod=name) for each in told))

    def _light(self, role: Role) -> Object:
        """Return a launcher's template; one that takes no ranks asks for nothing in v1alpha1."""
        spec: Object = {**(role.template.get("spec") or {})}
        first, *others = spec.get("containers") or [{}]
        if not self.options.modern:
            if not self.options.launcher_works:
                first = {key: value for key, value in first.items() if key != "resources"}
            elif self.sizing.units:
                limits = {
                    **((first.get("resources") or {}).get("limits") or {}),
                    self.sizing.resource: self.sizing.units,
                }
                first = {**first, "resources": {**(first.get("resources") or {}), "limits": limits}}
        if self.spec.launcher_on_master:
            spec["tolerations"] = [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in _MASTERS]
            terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in _MASTERS]
            wanted = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            spec["affinity"] = {"nodeAffinity": wanted}
        return {**role.template, "spec": {**spec, "containers": [first, *others]}}

    def _delivery(self) -> Object:
        return {
            "name": "kubectl-delivery",
            "image": self.settings.kubectl_image,
            "imagePullPolicy": "IfNotPresent",
            **({"command": [*self.settings.kubectl_command]} if self.settings.kubectl_command else {}),
            "env": [{"name": "TARGET_DIR", "value": KUBECTL_FOLDER}],
            "volumeMounts": [{"name": KUBECTL_VOLUME, "mountPath": KUBECTL_FOLDER}],
        }

    # Both

    def _team(self, role: Role) -> Team:
        """Return the pods of a role as a team, so that the launcher never waits for workers to fit again.

        Volcano has it in the workers' group all the same, whose minimum it does not change: it is of their queue.
        """
        if role.name == WORKER:
            minimum, has_group = min(self.job.run_policy.gang_min or role.replicas, role.replicas), True
        else:
            minimum, has_group = 1, self.settings.gang == "volcano" and self.job.count(WORKER) > 0
        group = gangs.teams(self.job, self.settings, 0)[role.name].group
        return Team(f"{self.job.name}-{role.label}", minimum, group if has_group else "")

    def _build(self, role: Role, index: int) -> BuiltPod:
        mould = pods.Mould(self.job, SHAPE, self.settings, self.version, {role.name: self._team(role)})
        built = pods.explained(mould, role, index)
        meta = {**built.object["metadata"]}
        searched = f"{self.domain}.{self.job.namespace}.svc.cluster.local"
        spec = {**built.object["spec"], "subdomain": self.domain}
        dns = spec.get("dnsConfig") or {}
        spec["dnsConfig"] = {**dns, "searches": [*(dns.get("searches") or ()), searched]}
        if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
            spec["dnsPolicy"] = "ClusterFirstWithHostNet"
        why = "short names of launcher and workers resolve everywhere in the job"
        rows = [Injection(meta["name"], "spec.dnsConfig.searches", searched, _SOURCE, why)]
        first, *others = spec["containers"]
        if others:
            meta["annotations"] = {_DEFAULT_CONTAINER: first["name"], **meta["annotations"]}
            path, why = f"metadata.annotations[{_DEFAULT_CONTAINER}]", "ranks are started in the first container"
            rows.append(Injection(meta["name"], path, first["name"], _SOURCE, why))
        own = {each["name"] for each in first["env"]}
        for name, (value, why) in _ON_ONE_MACHINE.items() if self.settings.one_machine else ():
            if name not in own:
                first = {**first, "env": [*first["env"], {"name": name, "value": value}]}
                rows.append(Injection(meta["name"], f"spec.containers[0].env[{name}]", value, _SOURCE, why))
        spec["containers"] = [first, *others]
        return BuiltPod({**built.object, "metadata": meta, "spec": spec}, (*built.injections, *rows))

    def explained(self) -> Iterator[WantedPod]:
        """Yield the pods that other controllers make from our templates."""
        yield _wanted(mpirun.launcher_host(self.job), LAUNCHER, 0, self._launcher)
        if self.has_set:
            for index in range(self.job.count(WORKER)):
                yield _wanted(names.pod(self.job.name, WORKER, index), WORKER, index, partial(self._worker, index))


def _wanted(name: str, role: str, index: int, built: Callable[[], BuiltPod]) -> WantedPod:
    return WantedPod(name, role, index, lambda: built().object, built)


def _with_kubectl(container: Object) -> Object:
    mount = {"name": KUBECTL_VOLUME, "mountPath": KUBECTL_FOLDER}
    return {**container, "volumeMounts": put(container.get("volumeMounts") or (), mount)}


def _template(pod: Object) -> Object:
    """Return a pod as the template of one: without its own name and owner."""
    meta = {key: value for key, value in pod["metadata"].items() if key in ("labels", "annotations", "finalizers")}
    return {"metadata": meta, "spec": pod["spec"]}


def _labels(job: Job, role: Role, index: int) -> dict[str, str]:
    found = labels(job, role.name)
    if names.JOB_ROLE_LABEL in found:
        options = Options(**job.requests[0].options)
        ahead = int(options.launcher_works)
        found[names.REPLICA_INDEX_LABEL] = str(index + ahead if role.name == WORKER else index)
        found[names.REPLICA_TYPE_LABEL] = role.label
    return found


SHAPE = pods.Shape("", _labels, spec=gangs.priority)
