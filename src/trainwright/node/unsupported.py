"""What of a pod's spec has no effect here, in words. Said once per pod, as an event: never in silence.

A process of the caller's cannot become another user, gain capabilities or lose its root file system; what the manifest
asks of that kind is ignored. What the image would bring (pull secrets, pull policy) means nothing here and is not
mentioned.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.core.objects import Object

_POD_FIELDS = {
    "hostNetwork": "a pod always has a network of its own",
    "hostPID": "a pod does not see other processes as its own",
    "hostIPC": "a pod has its own shared memory segments",
    "shareProcessNamespace": "containers of a pod see each other's processes anyway",
    "runtimeClassName": "there is one runtime",
    "ephemeralContainers": "use exec",
}
_POD_SECURITY = ("fsGroup", "supplementalGroups", "sysctls", "seLinuxOptions", "windowsOptions", "appArmorProfile")
_CONTAINER_SECURITY = ("privileged", "capabilities", "readOnlyRootFilesystem", "procMount", "seLinuxOptions")
_CONTAINER_FIELDS = {"tty": "output goes to a file", "stdin": "it is empty", "volumeDevices": "none is mapped"}


def unsupported(pod: Object, uid: int, gid: int) -> Iterator[str]:
    """Yield a sentence for everything a pod asks for that is ignored; `uid` and `gid` are our own."""
    spec = pod["spec"]
    for name, why in _POD_FIELDS.items():
        if spec.get(name):
            yield f"spec.{name} has no effect here: {why}"
    for name in sorted((spec.get("dnsConfig") or {}).keys() - {"searches"}):
        yield f"spec.dnsConfig.{name} has no effect here: names come from /etc/hosts"
    security = spec.get("securityContext") or {}
    yield from _users(security, "spec.securityContext", uid, gid)
    yield from _ignored(security, _POD_SECURITY, "spec.securityContext")
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            path = f"spec.{group}[{index}]"
            own = container.get("securityContext") or {}
            yield from _users(own, f"{path}.securityContext", uid, gid)
            yield from _ignored(own, _CONTAINER_SECURITY, f"{path}.securityContext")
            for name, why in _CONTAINER_FIELDS.items():
                if container.get(name):
                    yield f"{path}.{name} has no effect here: {why}"


def _users(security: Mapping[str, Any], path: str, uid: int, gid: int) -> Iterator[str]:
    for name, ours in (("runAsUser", uid), ("runAsGroup", gid)):
        asked = security.get(name)
        if asked is not None and asked != ours:
            yield f"{path}.{name}: {asked} is ignored; processes run as you ({ours})"
    if security.get("runAsNonRoot") and uid == 0:
        yield f"{path}.runAsNonRoot is ignored; processes run as you, and you are root"


def _ignored(security: Mapping[str, Any], names: tuple[str, ...], path: str) -> Iterator[str]:
    for name in names:
        if security.get(name):
            yield f"{path}.{name} is ignored; processes run with what you may do, no more and no less"
