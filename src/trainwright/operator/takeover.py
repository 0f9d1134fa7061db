"""What would change on a cluster that others look after already, and what to do in which order: `tw install --plan`.

A pure function of what `survey.py` has found. Nothing is changed here or there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trainwright.api.faces import OWN_SIZE
from trainwright.core.objects import Object, at, key
from trainwright.core.words import counted
from trainwright.kinds import KINDS, Kind
from trainwright.operator.crds import definitions, is_ours
from trainwright.operator.survey import Survey, served_versions, some


@dataclass(frozen=True)
class Original:
    """An operator that looks after kinds of ours where it runs."""

    name: str
    words: tuple[str, ...]
    """By which its Deployments or their images are known."""
    kinds: tuple[str, ...]
    handed_over: tuple[str, ...] = ()
    """Those of its kinds whose running jobs we go on with: it names their pods as we do."""
    advice: str = ""
    """What else to know before it is stopped."""


ORIGINALS = (
    Original(
        "Kubeflow's training operator",
        ("training-operator",),
        ("PyTorchJob", "MPIJob"),
        ("PyTorchJob",),
        "it may go on for its other kinds, named by its --enable-scheme flags",
    ),
    Original("Kubeflow's MPI operator", ("mpi-operator",), ("MPIJob",), ("MPIJob",)),
    Original(
        "Volcano's controllers",
        ("volcano-controller", "vc-controller-manager"),
        ("Job",),
        ("Job",),
        "its scheduler may go on, and is needed where gangs are kept together by Volcano",
    ),
    Original(
        "the TrainingJob controller",
        ("trainingjob-controller", "training-job-controller", "edl-controller"),
        ("TrainingJob",),
    ),
)


@dataclass(frozen=True)
class Finding:
    """One thing that is there, or is not, and what becomes of it."""

    name: str
    words: str


@dataclass(frozen=True)
class Takeover:
    """What was found, by heading, and the steps to take."""

    kinds: tuple[Finding, ...]
    operators: tuple[Finding, ...]
    webhooks: tuple[Finding, ...]
    jobs: tuple[Finding, ...]
    steps: tuple[str, ...]


def plan(found: Survey, *, adopt: bool = False) -> Takeover:
    """Say what installing would change; with `adopt` also what is there of the kinds' original projects."""
    running = [(each, original) for each in found.deployments if (original := _original(each))]
    asked = [each for each in found.webhooks if not is_ours(each) and _asked_about(each)]
    return Takeover(
        kinds=tuple(_kinds(found, adopt)),
        operators=tuple(_operator(each, original) for each, original in running),
        webhooks=tuple(Finding(_typed(each), f"is asked about {', '.join(_asked_about(each))}") for each in asked),
        jobs=tuple(_jobs(found)),
        steps=tuple(_steps(found, running, asked, adopt)),
    )


def foreign(found: Survey) -> list[str]:
    """Return the names of definitions of our kinds that somebody else has brought."""
    return [name for name, each in found.definitions.items() if not is_ours(each)]


# Kinds


def _kinds(found: Survey, adopt: bool) -> Iterator[Finding]:
    for wanted in definitions(KINDS):
        name = wanted["metadata"]["name"]
        there = found.definitions.get(name)
        if there is None:
            yield Finding(name, "is missing; it is created")
        elif is_ours(there):
            yield Finding(name, "is ours; it is brought up to date" if _differs(there, wanted) else "is ours already")
        else:
            yield Finding(name, _not_ours(there, wanted, adopt))


def _not_ours(there: Object, wanted: Object, adopt: bool) -> str:
    versions = ", ".join(served_versions(there))
    if not adopt and wanted["spec"]["versions"][0]["name"] not in served_versions(there):
        return f"is somebody else's ({versions}); it is left alone, and so are its jobs: we do not read that version"
    if not adopt:
        lost = " and ".join(_pruned(there, wanted))
        return f"is somebody else's ({versions}); it is left alone" + (f", and drops our {lost}" if lost else "")
    if kept := _stranded(there, wanted):
        return f"is somebody else's; it cannot be adopted while {', '.join(kept)} is among its status.storedVersions"
    return f"is somebody else's ({versions}); ours takes its place, and the jobs stay"


def _differs(there: Object, wanted: Object) -> bool:
    """Say whether a definition lacks something of ours; an API server adds to what it was given."""
    return any(at(there["spec"], (part,)) != wanted["spec"][part] for part in ("group", "names", "versions"))


def _pruned(there: Object, wanted: Object) -> list[str]:
    """Return the fields of ours that an API server would drop under this definition."""
    schema = _stored_schema(wanted)
    fields = [("status", "record"), OWN_SIZE]
    ours = [path for path in fields if _keeps(schema, path)]
    return [".".join(path) for path in ours if not _keeps(_stored_schema(there), path)]


def _stored_schema(crd: Object) -> Object:
    stored = [each for each in crd["spec"].get("versions") or () if each.get("storage")]
    schema: Object = at(stored[0], ("schema", "openAPIV3Schema"), {}) if stored else {}
    return schema


def _keeps(schema: Object, path: Sequence[str]) -> bool:
    for step in path:
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            return True
        below = at(schema, ("properties", step))
        if below is None:
            return False
        schema = below
    return True


def _stranded(there: Object, wanted: Object) -> list[str]:
    """Return versions in which jobs may still be stored and which ours does not have: an API server refuses that."""
    ours = {each["name"] for each in wanted["spec"]["versions"]}
    return [version for version in at(there, ("status", "storedVersions"), ()) if version not in ours]


# Who else is there


def _original(deployment: Object) -> Original | None:
    containers = at(deployment, ("spec", "template", "spec", "containers"), ())
    images = [str(each.get("image", "")).rpartition("/")[2].partition(":")[0] for each in containers]
    told = (deployment["metadata"]["name"], *images)
    return next((each for each in ORIGINALS if any(word in name for word in each.words for name in told)), None)


def _operator(deployment: Object, original: Original) -> Finding:
    replicas = at(deployment, ("spec", "replicas"), 1)
    state = "runs" if replicas else "is stopped"
    return Finding(key(deployment), f"{original.name} {state}; it looks after {', '.join(original.kinds)}")


def _asked_about(configuration: Object) -> list[str]:
    """Return the definitions of ours that a webhook names; who asks about everything is no part of an operator."""
    rules = [rule for each in configuration.get("webhooks") or () for rule in each.get("rules") or ()]
    return [
        str(kind.resource)
        for kind in KINDS
        if any(
            kind.resource.group in (rule.get("apiGroups") or ())
            and {"*", "*/*", kind.resource.plural} & set(rule.get("resources") or ())
            for rule in rules
        )
    ]


def _typed(configuration: Object) -> str:
    return f"{configuration['kind'].lower()}/{configuration['metadata']['name']}"


# Jobs


def _jobs(found: Survey) -> Iterator[Finding]:
    for kind in KINDS:
        there = found.objects.get(str(kind.resource), ())
        if there:
            going = unfinished(kind, there)
            state = f"{len(going)} not ended: {some(going)}" if going else "all ended"
            yield Finding(kind.name, f"{counted(len(there), 'job')}, {state}")


def unfinished(kind: Kind, jobs: Sequence[Object]) -> list[Object]:
    """Return the jobs that something may still happen to."""
    return [job for job in jobs if not kind.face.standing(job.get("status") or {}).finished]


# Steps


def _steps(
    found: Survey, running: Sequence[tuple[Object, Original]], asked: Sequence[Object], adopt: bool
) -> Iterator[str]:
    going = {kind.name: unfinished(kind, found.objects.get(str(kind.resource), ())) for kind in KINDS}
    for deployment, original in running:
        waiting = sum(len(going[name]) for name in original.kinds if name not in original.handed_over)
        if waiting and at(deployment, ("spec", "replicas"), 1):
            yield f"let {original.name} see {counted(waiting, 'job')} to the end"
    for deployment, original in running:
        if at(deployment, ("spec", "replicas"), 1):
            metadata = deployment["metadata"]
            stop = f"kubectl -n {metadata['namespace']} scale deployment/{metadata['name']} --replicas=0"
            yield f"stop {original.name}: {stop}" + (f" ({original.advice})" if original.advice else "")
    for each in asked:
        yield f"if {_typed(each)} belongs to what was stopped, delete it: a webhook that nobody answers refuses jobs"
    yield f"tw install{' --adopt-crds' if adopt else ''} | kubectl apply -f -"
    kept = dict.fromkeys(name for _, original in running for name in original.handed_over)
    if inherited := sum(len(going[name]) for name in kept):
        many = "go on" if inherited > 1 else "goes on"
        yield f"nothing to do: {counted(inherited, 'job')} of what was stopped {many}, and no pod is restarted"
    if foreign(found) and not adopt:
        yield "later, when the other operator is not coming back: tw install --adopt-crds | kubectl apply -f -"
