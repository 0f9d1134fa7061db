"""Pods that have no node: which resource is short where, by how much, who holds it, and when it may become free."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import reduce

from trainwright.core.names import GANG_MIN_ANNOTATION, GANG_WAITS_ANNOTATION, JOB_LABEL
from trainwright.core.objects import Object, at, holds, moment
from trainwright.core.words import counted, listed
from trainwright.kinds import kind_of
from trainwright.placement import (
    OVER_QUOTA,
    Amounts,
    Claim,
    Shortfall,
    allocatable,
    minus,
    place,
    plus,
    pod_requests,
    show,
    usable,
)
from trainwright.placement.fit import fits, hunger
from trainwright.placement.taints import keeps_away
from trainwright.reconcile.kind import Pod
from trainwright.why import blame
from trainwright.why.base import Facts, Judge, Verdict

_NAMED = 3
"""So many holders stand in a sentence."""
_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Want:
    """The pods that want a place next: those of a gang together, otherwise one."""

    pods: tuple[Pod, ...]
    waiting: int
    """How many wait in all."""

    @property
    def needs(self) -> Amounts:
        """Return what they need together."""
        return reduce(plus, (pod_requests(pod.object) for pod in self.pods), {})


@dataclass(frozen=True)
class Short:
    """One resource of which there is too little, and where."""

    resource: str
    needed: int
    free: int
    offered: int
    nodes: tuple[str, ...]
    fitting: int = 0
    """How many pods of a gang would fit before the one that does not."""

    def words(self, who: str) -> str:
        """Return it as a sentence about who needs it."""
        needed, free, offered, lacking = (
            show(self.resource, value)
            for value in (self.needed, max(self.free, 0), self.offered, self.needed - self.free)
        )
        where = f"node {self.nodes[0]}" if len(self.nodes) == 1 else f"{len(self.nodes)} nodes together"
        return f"{who} {needed}, and {free} of {offered} is free on {where}: {lacking} too little"


def waiting(facts: Facts) -> list[Pod]:
    """Return the pods that want a node, in order of rank."""
    return [
        pod
        for pod in facts.ranks
        if pod.phase == "Pending" and not pod.terminating and not at(pod.object, ("spec", "nodeName"))
    ]


def wanted(facts: Facts) -> Want | None:
    """Return who wants a place next; None if nobody waits."""
    pods = waiting(facts)
    if not pods:
        return None
    placed = sum(bool(at(pod.object, ("spec", "nodeName"))) and not pod.ended for pod in facts.ranks)
    together = max(gang_minimum(pod) for pod in pods) - placed
    return Want(tuple(pods[: max(together, 1)]), len(pods))


def gang_minimum(pod: Pod) -> int:
    """Return how many pods must have a place before this one starts; 1 outside of a gang."""
    text = at(pod.object, ("metadata", "annotations", GANG_MIN_ANNOTATION), "1")
    return int(text) if str(text).isdigit() else 1


def never_fits(facts: Facts) -> Verdict | None:
    """It needs more than there would be if nothing else ran."""
    want = wanted(facts)
    if want is None:
        return None
    offered = _offered(node for node in facts.nodes if not keeps_away(node, want.pods[0].object))
    short = shortage(want, offered, offered)
    if short is None:
        return None
    sentence = f"{facts.name} can never start here: {short.words(_who(want, short))}, even if nothing else ran"
    return Verdict(sentence, _ranks(facts, want), _ask_for_less(facts, short))


def _ask_for_less(facts: Facts, short: Short) -> tuple[str, ...]:
    flag = {"cpu": "cpu", "memory": "memory"}.get(short.resource, "gpu" if "gpu" in short.resource else "")
    if facts.home in ("run", "kept") and flag:
        return (f"tw run FILE --{flag} {show(short.resource, short.needed)}",)
    return (f"ask for less {short.resource}, or add a node that offers it",)


def nodes_closed(facts: Facts) -> Verdict | None:
    """No node takes pods now: those there are not ready, or cordoned."""
    want = wanted(facts)
    if want is None or not facts.nodes or any(map(usable, facts.nodes)) or facts.home == "kept":
        return None
    told = [f"node {_name(node)} {_closed(node)}" for node in facts.nodes]
    sentence = f"{facts.name} waits for a node: {listed(told[:_NAMED])}"
    return Verdict(sentence, _ranks(facts, want), (*_uncordon(facts.nodes), "kubectl get nodes"))


def kept_away(facts: Facts) -> Verdict | None:
    """Nodes are there, and their taints or labels keep the pods away."""
    want = wanted(facts)
    ready = [node for node in facts.nodes if usable(node)]
    if want is None or not ready or _open(facts, want):
        return None
    told = [f"node {_name(node)} {keeps_away(node, want.pods[0].object)}" for node in ready]
    sentence = f"no node takes {facts.label(want.pods[0].name)} of {facts.name}: {listed(told[:_NAMED])}"
    advice = "change nodeSelector or tolerations, or the nodes: kubectl describe nodes"
    return Verdict(sentence, _ranks(facts, want), (advice,))


def no_room(facts: Facts) -> Verdict | None:
    """A resource is short now: where, by how much, who holds it, and when it may become free."""
    want = wanted(facts)
    if want is None:
        return None
    nodes = _open(facts, want)
    offered = _offered(nodes)
    short = shortage(want, _free(facts, offered), offered)
    if short is None:
        return None
    holders = _holders(facts, short)
    held = f"; {_held(short, holders)}" if holders else ""
    sentence = f"{facts.name} waits for {short.resource}: {short.words(_who(want, short))}{held}"
    closed = [f"node {_name(node)} {_closed(node)}" for node in facts.nodes if not usable(node)]
    known = (*_ranks(facts, want), *_place(facts), *_no_class(facts), *_free_again(facts, holders))
    evidence = (*known, *closed[:_NAMED], *blame.disturbed(facts))
    return Verdict(sentence, evidence, _after_holders(facts, holders))


def shortage(want: Want, free: dict[str, Amounts], offered: dict[str, Amounts]) -> Short | None:
    """Return what is short for pods that must fit together; None if they fit, or no node is known."""
    if not offered:
        return None
    claims = (Claim(pod.uid or pod.name, pod_requests(pod.object)) for pod in want.pods)
    left = dict(free)
    for fitting, claim in enumerate(sorted(claims, key=lambda each: hunger(each.needs), reverse=True)):
        found = place(left, offered, [claim])
        if isinstance(found, Shortfall):
            return _together(want, free, offered) or replace(_closest(claim.needs, left, offered), fitting=fitting)
        left[found[claim.name]] = minus(left[found[claim.name]], claim.needs)
    return None


def _together(want: Want, free: dict[str, Amounts], offered: dict[str, Amounts]) -> Short | None:
    """Return what is short on all nodes together; None if only the pieces are too small."""
    all_free, all_offered, needs = _sum(free.values()), _sum(offered.values()), want.needs
    for name in sorted(needs):
        if needs[name] > all_free.get(name, 0):
            return Short(name, needs[name], all_free.get(name, 0), all_offered.get(name, 0), tuple(sorted(offered)))
    return None


def _closest(needs: Amounts, free: dict[str, Amounts], offered: dict[str, Amounts]) -> Short:
    """Return what is short for one pod that fits nowhere, on the node that comes closest to holding it."""
    options = []
    for node, left in free.items():
        lacking = {name: value - left.get(name, 0) for name, value in needs.items() if value > left.get(name, 0)}
        for name, lack in sorted(lacking.items()):
            short = Short(name, needs[name], left.get(name, 0), offered[node].get(name, 0), (node,))
            options.append((len(lacking), lack / needs[name], node, short))
    return min(options, key=lambda each: each[:3])[3]


def gang_incomplete(facts: Facts) -> Verdict | None:
    """Fewer pods of the gang are there than must start together: nobody starts before the rest is there."""
    pods = waiting(facts)
    minimum = max((gang_minimum(pod) for pod in pods), default=1)
    there = len([pod for pod in facts.ranks if not pod.ended and not pod.terminating])
    if not pods or there >= minimum:
        return None
    sentence = (
        f"{facts.name} waits for the rest of its gang: {there} of {minimum} pods are there, and they start together"
    )
    failed = [f"{event.get('message')}" for event in facts.told("FailedCreatePod")[-1:]]
    return Verdict(sentence, (*failed, *_stopping(facts)), (facts.command("events"),))


def over_allowance(facts: Facts) -> Verdict | None:
    """The quota of its namespace is used up: the whole gang waits for as much as it needs."""
    said = _scheduler_says(facts, OVER_QUOTA)
    if not said:
        return None
    meta = facts.object["metadata"]
    return Verdict(
        f"{facts.name} waits for its quota: {said}", (), (f"kubectl describe quota -n {meta['namespace']}", "tw ps")
    )


def queued(facts: Facts) -> Verdict | None:
    """There is room, but it is kept for jobs that are ahead in the queue."""
    said = _scheduler_says(facts, "Queued")
    if not said:
        return None
    evidence = ("the more urgent go first, then who came first; nobody passes where that may delay those ahead",)
    return Verdict(f"{facts.name} is {said}", (*evidence, *_no_class(facts)), ("tw ps -A",))


def _scheduler_says(facts: Facts, reason: str) -> str:
    """Return why pods wait, in the words of the local home's scheduler; nothing if that is not the reason."""
    for pod in waiting(facts):
        for condition in at(pod.object, ("status", "conditions")) or ():
            if (condition.get("type"), condition.get("reason")) == ("PodScheduled", reason):
                return str(condition.get("message") or "")
    return ""


def _no_class(facts: Facts) -> tuple[str, ...]:
    """Say that pods name a priority class which nobody has made; a cluster would have refused them."""
    specs = [pod.object.get("spec") or {} for pod in waiting(facts)]
    names = {str(spec.get("priorityClassName") or "") for spec in specs if spec.get("priority") is None} - {""}
    return tuple(f"there is no priority class {name}: it counts as 0" for name in sorted(names))


def _place(facts: Facts) -> tuple[str, ...]:
    """Return the place in the queue, where there is one."""
    place, queue, _ = _scheduler_says(facts, "Queued").partition("; ")
    return (f"it is {place}",) if queue else ()


def gated(facts: Facts) -> Verdict | None:
    """There is room, but the pods are held back by a gate: another gang opens first."""
    held = [pod for pod in waiting(facts) if at(pod.object, ("spec", "schedulingGates"))]
    if not held:
        return None
    gates = sorted({gate["name"] for pod in held for gate in pod.object["spec"]["schedulingGates"]})
    said = [why for pod in held if (why := at(pod.object, ("metadata", "annotations", GANG_WAITS_ANNOTATION)))]
    sentence = f"{facts.name} is held back: the gate {listed(gates)} is shut for {counted(len(held), 'pod')}"
    evidence = ("gangs are let in one after the other, so that none gets half of what it needs",)
    return Verdict(f"{sentence}: {said[0]}" if said else sentence, evidence, ("tw ps -A",))


def unplaced(facts: Facts) -> Verdict | None:
    """The scheduler has found no node, for a reason of its own: in its words."""
    for pod in waiting(facts):
        for condition in at(pod.object, ("status", "conditions")) or ():
            if (
                condition.get("type") == "PodScheduled"
                and condition.get("status") == "False"
                and condition.get("message")
            ):
                sentence = f"{facts.name} waits for a node: {condition['message']}"
                return Verdict(
                    sentence, (f"{facts.label(pod.name)} is the first that waits",), (facts.command("events"),)
                )
    return None


# Nodes and who is on them


def _open(facts: Facts, want: Want) -> list[Object]:
    """Return the nodes that would take the pods if there were room."""
    return [node for node in facts.nodes if usable(node) and not keeps_away(node, want.pods[0].object)]


def _offered(nodes: Iterable[Object]) -> dict[str, Amounts]:
    return {_name(node): allocatable(node) for node in nodes}


def _free(facts: Facts, offered: dict[str, Amounts]) -> dict[str, Amounts]:
    free = dict(offered)
    for pod in (*facts.others, *facts.pods):
        node = at(pod, ("spec", "nodeName"))
        if node in free and at(pod, ("status", "phase")) not in _ENDED:
            free[node] = minus(free[node], pod_requests(pod))
    return free


def free_for(facts: Facts, template: Object) -> Short | None:
    """Return what is short for one more pod of a template; None if it fits somewhere, or no node is known."""
    pod = {"metadata": {"name": ""}, "spec": template.get("spec") or {}}
    offered = _offered(node for node in facts.nodes if usable(node) and not keeps_away(node, pod))
    free = _free(facts, offered)
    needs = pod_requests(pod)
    if not offered or any(fits(needs, left) for left in free.values()):
        return None
    return _closest(needs, free, offered)


def holders_of(facts: Facts, short: Short) -> str:
    """Return who holds a resource, in words; nothing if nobody is known to."""
    holders = _holders(facts, short)
    return _held(short, holders) if holders else ""


def _holders(facts: Facts, short: Short) -> Counter[str]:
    """Return who holds how much of a resource on the nodes where it is short."""
    held: Counter[str] = Counter()
    for pod in facts.others:
        if at(pod, ("spec", "nodeName")) in short.nodes and at(pod, ("status", "phase")) not in _ENDED:
            held[_holder(facts, pod)] += pod_requests(pod).get(short.resource, 0)
    for pod in facts.pods:
        if at(pod, ("spec", "nodeName")) in short.nodes and at(pod, ("status", "phase")) not in _ENDED:
            held["its own ranks"] += pod_requests(pod).get(short.resource, 0)
    return +held


def _holder(facts: Facts, pod: Object) -> str:
    meta = pod["metadata"]
    job = (meta.get("labels") or {}).get(JOB_LABEL)
    elsewhere = meta.get("namespace") != facts.object["metadata"].get("namespace")
    place = f"{meta.get('namespace')}/" if elsewhere else ""
    return f"job {place}{job}" if job else f"pod {place}{meta['name']}"


def _held(short: Short, holders: Counter[str]) -> str:
    most = holders.most_common(_NAMED)
    told = [f"{who} {'hold' if who.endswith('ranks') else 'holds'} {show(short.resource, much)}" for who, much in most]
    rest = len(holders) - len(most)
    return listed([*told, *([f"{counted(rest, 'other')} the rest"] if rest else [])])


def _free_again(facts: Facts, holders: Counter[str]) -> tuple[str, ...]:
    """Say when a holder has to end, where its job has a deadline."""
    ends = [(end, who) for who in holders if (end := _deadline(facts, who.removeprefix("job "))) is not None]
    if not ends:
        return ()
    end, who = min(ends)
    return (f"{who} has to end by {facts.clock(end)}, at its activeDeadlineSeconds",)


def _deadline(facts: Facts, holder: str) -> datetime | None:
    own = facts.object["metadata"].get("namespace")
    namespace, _, name = holder.rpartition("/")
    for obj in facts.jobs:
        meta, kind = obj["metadata"], kind_of(obj)
        if kind is None or (meta["name"], meta.get("namespace")) != (name, namespace or own):
            continue
        seconds = kind.read(obj).run_policy.deadline_seconds
        started = moment(at(obj, ("status", "startTime")))
        if seconds is not None and started is not None:
            return started + timedelta(seconds=seconds)
    return None


def _after_holders(facts: Facts, holders: Counter[str]) -> tuple[str, ...]:
    jobs = [who.removeprefix("job ") for who in holders if who.startswith("job ") and "/" not in who]
    return (*(f"tw why {job}{facts.flags}" for job in jobs[:1]), "tw ps -A")


def _name(node: Object) -> str:
    return str(node["metadata"]["name"])


def _closed(node: Object) -> str:
    return "is cordoned" if holds(node, "Ready") else "is not ready"


def _uncordon(nodes: Iterable[Object]) -> tuple[str, ...]:
    cordoned = [_name(node) for node in nodes if at(node, ("spec", "unschedulable"))]
    return (f"kubectl uncordon {' '.join(cordoned)}",) if cordoned else ()


def _who(want: Want, short: Short) -> str:
    if short.fitting:
        return f"{short.fitting} of the {len(want.pods)} pods of its gang would fit, the next needs"
    return f"a gang of {len(want.pods)} pods needs" if len(want.pods) > 1 else f"{want.pods[0].name} needs"


def _ranks(facts: Facts, want: Want) -> tuple[str, ...]:
    """Say how far the job is without those that wait."""
    up = len(facts.running)
    told = f"{want.waiting} of {facts.job.total} ranks wait for a node"
    return (f"{told}, {up} {'runs' if up == 1 else 'run'}",) if up else (told,)


def _stopping(facts: Facts) -> tuple[str, ...]:
    leaving = [facts.label(pod.name) for pod in facts.leaving]
    return (f"still stopping: {listed(leaving)}",) if leaving else ()


def _sum(parts: Iterable[Amounts]) -> Amounts:
    return reduce(plus, parts, {})


ROOM: tuple[Judge, ...] = (
    gang_incomplete,
    never_fits,
    nodes_closed,
    kept_away,
    over_allowance,
    no_room,
    queued,
    gated,
)
