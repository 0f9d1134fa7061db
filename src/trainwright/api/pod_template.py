"""Pod templates: what Kubernetes lets stand in one, and what it would refuse only when the pods are made.

Templates stay plain objects, because pods are built from them; an API server keeps them in our kinds as they are, so a
mistake inside would not be seen before the first pod. The table below is that of Kubernetes 1.35. A field it does not
have is an error if it looks like a misspelling, else a warning, for a newer Kubernetes may know it.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.api import reader
from trainwright.api.reader import Shape, amount, child, once, show, walk
from trainwright.core.errors import Problem, did_you_mean
from trainwright.core.names import LABEL_LENGTH, is_dns_label

_TABLE = """
Template: metadata:Meta spec!:PodSpec
Meta: annotations:{str} clusterName:str creationTimestamp:str deletionGracePeriodSeconds:int deletionTimestamp:str
  finalizers:[str] generateName:str generation:int labels:{str} managedFields:[any] name:str namespace:str
  ownerReferences:[any] resourceVersion:str selfLink:str uid:str
PodSpec: activeDeadlineSeconds:1.. affinity:Affinity automountServiceAccountToken:bool containers!:[Container]
  dnsConfig:DNSConfig dnsPolicy:ClusterFirst|ClusterFirstWithHostNet|Default|None enableServiceLinks:bool
  ephemeralContainers:[any] hostAliases:[HostAlias] hostIPC:bool hostNetwork:bool hostPID:bool hostUsers:bool
  hostname:str hostnameOverride:str imagePullSecrets:[Reference] initContainers:[Container] nodeName:str
  nodeSelector:{str} os:Named
  overhead:{quantity} preemptionPolicy:PreemptLowerPriority|Never priority:int priorityClassName:str
  readinessGates:[ReadinessGate] resourceClaims:[PodResourceClaim] resources:Resources
  restartPolicy:Always|OnFailure|Never runtimeClassName:str schedulerName:str schedulingGates:[Named]
  securityContext:PodSecurity serviceAccount:str serviceAccountName:str setHostnameAsFQDN:bool
  shareProcessNamespace:bool subdomain:str terminationGracePeriodSeconds:0.. tolerations:[Toleration]
  topologySpreadConstraints:[Spread] volumes:[Volume] workloadRef:WorkloadReference
Container: args:[str] command:[str] env:[EnvVar] envFrom:[EnvFrom] image:str
  imagePullPolicy:Always|IfNotPresent|Never lifecycle:Lifecycle livenessProbe:Probe name!:str ports:[Port]
  readinessProbe:Probe resizePolicy:[ResizePolicy] resources:Resources restartPolicy:Always|OnFailure|Never
  restartPolicyRules:[RestartRule] securityContext:Security startupProbe:Probe stdin:bool stdinOnce:bool
  terminationMessagePath:str terminationMessagePolicy:File|FallbackToLogsOnError tty:bool volumeDevices:[Device]
  volumeMounts:[Mount] workingDir:str
EnvVar: name!:str value:str valueFrom:EnvSource
EnvSource: configMapKeyRef:KeyRef fieldRef:FieldRef fileKeyRef:FileKeyRef resourceFieldRef:ResourceFieldRef
  secretKeyRef:KeyRef
EnvFrom: configMapRef:OptionalRef prefix:str secretRef:OptionalRef
KeyRef: key!:str name!:str optional:bool
OptionalRef: name!:str optional:bool
FieldRef: apiVersion:str fieldPath!:str
FileKeyRef: key!:str optional:bool path!:str volumeName!:str
ResourceFieldRef: containerName:str divisor:quantity resource!:str
Port: containerPort!:1..65535 hostIP:str hostPort:0..65535 name:str protocol:TCP|UDP|SCTP
Resources: claims:[ResourceClaim] limits:{quantity} requests:{quantity}
ResourceClaim: name!:str request:str
ResizePolicy: resourceName!:str restartPolicy!:str
RestartRule: action!:str exitCodes:ExitCodes
ExitCodes: operator!:In|NotIn values:[int]
Mount: mountPath!:str mountPropagation:None|HostToContainer|Bidirectional name!:str readOnly:bool recursiveReadOnly:str
  subPath:str subPathExpr:str
Device: devicePath!:str name!:str
Lifecycle: postStart:Handler preStop:Handler stopSignal:str
Handler: exec:Exec httpGet:HTTPGet sleep:Sleep tcpSocket:TCPSocket
Probe: exec:Exec failureThreshold:0.. grpc:GRPC httpGet:HTTPGet initialDelaySeconds:0.. periodSeconds:0..
  successThreshold:0.. tcpSocket:TCPSocket terminationGracePeriodSeconds:1.. timeoutSeconds:0..
Exec: command:[str]
HTTPGet: host:str httpHeaders:[Header] path:str port!:int-or-string scheme:HTTP|HTTPS
Header: name!:str value!:str
TCPSocket: host:str port!:int-or-string
GRPC: port!:1..65535 service:str
Sleep: seconds!:0..
Security: allowPrivilegeEscalation:bool appArmorProfile:Profile capabilities:Capabilities privileged:bool procMount:str
  readOnlyRootFilesystem:bool runAsGroup:int runAsNonRoot:bool runAsUser:int seLinuxOptions:SELinux
  seccompProfile:Profile windowsOptions:Windows
PodSecurity: appArmorProfile:Profile fsGroup:int fsGroupChangePolicy:str runAsGroup:int runAsNonRoot:bool runAsUser:int
  seLinuxChangePolicy:str seLinuxOptions:SELinux seccompProfile:Profile supplementalGroups:[int]
  supplementalGroupsPolicy:str sysctls:[Header] windowsOptions:Windows
Profile: localhostProfile:str type!:str
Capabilities: add:[str] drop:[str]
SELinux: level:str role:str type:str user:str
Windows: gmsaCredentialSpec:str gmsaCredentialSpecName:str hostProcess:bool runAsUserName:str
DNSConfig: nameservers:[str] options:[DNSOption] searches:[str]
DNSOption: name:str value:str
HostAlias: hostnames:[str] ip!:str
Reference: name:str
Named: name!:str
ReadinessGate: conditionType!:str
PodResourceClaim: name!:str resourceClaimName:str resourceClaimTemplateName:str
WorkloadReference: name!:str podGroup!:str podGroupReplicaKey:str
Toleration: effect:NoSchedule|PreferNoSchedule|NoExecute key:str operator:Exists|Equal|Lt|Gt tolerationSeconds:int
  value:str
Spread: labelSelector:Selector matchLabelKeys:[str] maxSkew!:1.. minDomains:1.. nodeAffinityPolicy:Honor|Ignore
  nodeTaintsPolicy:Honor|Ignore topologyKey!:str whenUnsatisfiable!:DoNotSchedule|ScheduleAnyway
Selector: matchExpressions:[SelectorTerm] matchLabels:{str}
SelectorTerm: key!:str operator!:In|NotIn|Exists|DoesNotExist values:[str]
Affinity: nodeAffinity:NodeAffinity podAffinity:PodAffinity podAntiAffinity:PodAffinity
NodeAffinity: preferredDuringSchedulingIgnoredDuringExecution:[PreferredNodes]
  requiredDuringSchedulingIgnoredDuringExecution:NodeSelector
NodeSelector: nodeSelectorTerms!:[NodeTerm]
NodeTerm: matchExpressions:[NodeRequirement] matchFields:[NodeRequirement]
NodeRequirement: key!:str operator!:In|NotIn|Exists|DoesNotExist|Gt|Lt values:[str]
PreferredNodes: preference!:NodeTerm weight!:1..100
PodAffinity: preferredDuringSchedulingIgnoredDuringExecution:[PreferredPods]
  requiredDuringSchedulingIgnoredDuringExecution:[PodTerm]
PreferredPods: podAffinityTerm!:PodTerm weight!:1..100
PodTerm: labelSelector:Selector matchLabelKeys:[str] mismatchLabelKeys:[str] namespaceSelector:Selector namespaces:[str]
  topologyKey!:str
Volume: awsElasticBlockStore:any azureDisk:any azureFile:any cephfs:any cinder:any configMap:ConfigMapVolume csi:CSI
  downwardAPI:DownwardAPI emptyDir:EmptyDir ephemeral:Ephemeral fc:any flexVolume:any flocker:any
  gcePersistentDisk:any gitRepo:any glusterfs:any hostPath:HostPath image:ImageVolume iscsi:any name!:str nfs:NFS
  persistentVolumeClaim:Claim photonPersistentDisk:any portworxVolume:any projected:Projected quobyte:any rbd:any
  scaleIO:any secret:SecretVolume storageos:any vsphereVolume:any
ConfigMapVolume: defaultMode:0..511 items:[KeyToPath] name!:str optional:bool
SecretVolume: defaultMode:0..511 items:[KeyToPath] optional:bool secretName!:str
KeyToPath: key!:str mode:0..511 path!:str
CSI: driver!:str fsType:str nodePublishSecretRef:Reference readOnly:bool volumeAttributes:{str}
DownwardAPI: defaultMode:0..511 items:[DownwardFile]
DownwardFile: fieldRef:FieldRef mode:0..511 path!:str resourceFieldRef:ResourceFieldRef
EmptyDir: medium:str sizeLimit:quantity
Ephemeral: volumeClaimTemplate:any
HostPath: path!:str type:str
ImageVolume: pullPolicy:Always|IfNotPresent|Never reference:str
NFS: path!:str readOnly:bool server!:str
Claim: claimName!:str readOnly:bool
Projected: defaultMode:0..511 sources:[Projection]
Projection: clusterTrustBundle:any configMap:ProjectedItems downwardAPI:DownwardAPI podCertificate:any
  secret:ProjectedItems serviceAccountToken:Token
ProjectedItems: items:[KeyToPath] name!:str optional:bool
Token: audience:str expirationSeconds:int path!:str
"""
_SHAPES = reader.shapes(_TABLE)

METADATA = _SHAPES["Meta"]
TEMPLATE = Shape("object", doc="A pod template, as for any Kubernetes workload.", preserved=True)

_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*")
_ENV_NAME = re.compile(r"[ -<>-~]+")  # any printable ASCII but "="
_QUALIFIED = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_NATIVE = re.compile(r"cpu|memory|ephemeral-storage|hugepages-.+")
_PROBES, _HOOKS = ("livenessProbe", "readinessProbe", "startupProbe"), ("postStart", "preStop")
_ASK, _ACT = ("exec", "grpc", "httpGet", "tcpSocket"), ("exec", "httpGet", "sleep", "tcpSocket")
_LAST_PORT = 65535
_PORT_NAME_LENGTH = 15


def check(template: Any, path: str) -> Iterator[Problem]:
    """Yield everything that Kubernetes would refuse, or that cannot be meant, in a pod template."""
    yield from walk(_SHAPES["Template"], template, path)
    metadata, spec = _inside(template, "metadata"), _inside(template, "spec")
    yield from check_metadata(metadata, child(path, "metadata"))
    path = child(path, "spec")
    if spec.get("containers") == []:
        yield Problem(child(path, "containers"), "there is no container; a pod needs at least one")
    volumes = _volume_names(spec)
    for where, container in containers(spec, path):
        yield from _check_container(container, where, volumes)
    yield from _check_names(spec, path)
    yield from _check_volumes(spec, path)


def check_metadata(metadata: Any, path: str) -> Iterator[Problem]:
    """Yield the labels and annotations an API server would refuse; their types are `METADATA`'s."""
    for kind in ("labels", "annotations"):
        for key, value in _inside(metadata, kind).items():
            where = child(child(path, kind), key)
            if not _QUALIFIED.fullmatch(key):
                rule = "letters, digits, '-', '_' and '.', at most 63, with an optional prefix such as example.com/"
                yield Problem(where, f"{show(key)} cannot be the key of one of the {kind}; write {rule}")
            if kind == "labels" and isinstance(value, str) and not _LABEL_VALUE.fullmatch(value):
                rule = "at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
                yield Problem(where, f"{show(value)} cannot be a label's value; write {rule}, or use an annotation")


def containers(spec: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every container of a pod spec with its path, init containers first."""
    for kind in ("initContainers", "containers"):
        yield from _listed(spec, kind, path)


def _check_container(container: Mapping[str, Any], path: str, volumes: set[str]) -> Iterator[Problem]:
    if not container.get("image"):
        yield Problem(child(path, "image"), "missing; every container needs an image")
    yield from _check_ports(container, path)
    yield from _check_env(container, path)
    yield from _check_mounts(container, path, volumes)
    yield from _check_resources(container, path)
    for name in _PROBES:
        yield from _check_handler(container.get(name), child(path, name), _ASK)
    for name in _HOOKS:
        hook = _inside(container, "lifecycle").get(name)
        yield from _check_handler(hook, child(child(path, "lifecycle"), name), _ACT)


def _check_names(spec: Mapping[str, Any], path: str) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for where, container in containers(spec, path):
        name = container.get("name")
        if isinstance(name, str):
            yield from _label(name, child(where, "name"), "a container's name")
            yield from once(name, seen, child(where, "name"))


def _check_ports(container: Mapping[str, Any], path: str) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for where, port in _listed(container, "ports", path):
        name = port.get("name")
        if not isinstance(name, str):
            continue
        where = child(where, "name")
        if len(name) > _PORT_NAME_LENGTH or not _PORT_NAME.fullmatch(name):
            rule = f"at most {_PORT_NAME_LENGTH} small letters, digits and single '-', with at least one letter"
            yield Problem(where, f"{show(name)} cannot be a port's name; write {rule}")
        yield from once(name, seen, where)


def _check_env(container: Mapping[str, Any], path: str) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for where, variable in _listed(container, "env", path):
        name, source = variable.get("name"), variable.get("valueFrom")
        if isinstance(name, str):
            if not _ENV_NAME.fullmatch(name):
                yield Problem(
                    child(where, "name"), f"{show(name)} cannot be a variable's name; write letters without '='"
                )
            elif name in seen:
                yield Problem(where, f"{name} is set a second time, which wins; the first is {seen[name]}", "warning")
            seen.setdefault(name, where)
        if variable.get("value") and source is not None:
            yield Problem(where, "has both value and valueFrom; leave one out")
        if isinstance(source, dict):
            yield from _exactly_one(source, _SHAPES["EnvSource"].fields, child(where, "valueFrom"), "source")
    for where, source in _listed(container, "envFrom", path):
        yield from _exactly_one(source, ("configMapRef", "secretRef"), where, "source")


def _check_mounts(container: Mapping[str, Any], path: str, volumes: set[str]) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for where, mount in _listed(container, "volumeMounts", path):
        name, target = mount.get("name"), mount.get("mountPath")
        if isinstance(name, str) and name not in volumes:
            near = did_you_mean(name, volumes) if len(name) <= LABEL_LENGTH else ""
            yield Problem(child(where, "name"), f"there is no volume {show(name)}{near or '; add it to the volumes'}")
        if isinstance(target, str):
            yield from once(target, seen, child(where, "mountPath"))
        if mount.get("subPath") and mount.get("subPathExpr"):
            yield Problem(where, "has both subPath and subPathExpr; leave one out")


def _check_resources(container: Mapping[str, Any], path: str) -> Iterator[Problem]:
    path = child(path, "resources")
    resources = _inside(container, "resources")
    limits, requests = _inside(resources, "limits"), _inside(resources, "requests")
    for kind, given in (("limits", limits), ("requests", requests)):
        for name, value in given.items():
            yield from _check_amount(name, value, child(child(path, kind), name))
    for name in requests:
        where = child(child(path, "requests"), name)
        request, limit = amount(requests[name]), amount(limits.get(name))
        if request is None:
            continue
        if limit is not None and request > limit:
            yield Problem(
                where, f"{requests[name]} is more than the limit ({limits[name]}); lower it, or raise the limit"
            )
        elif _extended(name) and limits.get(name) is None:
            yield Problem(where, f"has no limit; {name} cannot be shared, so write the same number under limits")
        elif _extended(name) and limit is not None and request != limit:
            yield Problem(where, f"{requests[name]} differs from the limit ({limits[name]}); {name} cannot be shared")


def _check_amount(name: str, value: Any, path: str) -> Iterator[Problem]:
    number = amount(value)
    if "/" not in name and not _NATIVE.fullmatch(name):
        example = "; a GPU is nvidia.com/gpu" if "gpu" in name.lower() else ""
        yield Problem(path, f"there is no resource {show(name)} (there are: cpu, memory, ephemeral-storage){example}")
    elif number is None:
        return
    elif number < 0:
        yield Problem(path, f"must not be negative, found {value}")
    elif _extended(name) and number != number.to_integral_value():
        yield Problem(path, f"{name} is counted in whole numbers, found {value}")
    elif name == "memory" and number != number.to_integral_value():
        yield Problem(
            path, f"{value} is less than whole bytes ('m' is a thousandth); write for example 512Mi", "warning"
        )


def _extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name


def _check_handler(handler: Any, path: str, ways: tuple[str, ...]) -> Iterator[Problem]:
    if not isinstance(handler, dict):
        return
    yield from _exactly_one(handler, ways, path, "action")
    for kind in ("httpGet", "tcpSocket"):
        port = _inside(handler, kind).get("port")
        if isinstance(port, int) and not isinstance(port, bool) and not 1 <= port <= _LAST_PORT:
            yield Problem(child(child(path, kind), "port"), f"must be a port's name or 1 to {_LAST_PORT}, found {port}")


def _check_volumes(spec: Mapping[str, Any], path: str) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    sources = [name for name in _SHAPES["Volume"].fields if name != "name"]
    for where, volume in _listed(spec, "volumes", path):
        name = volume.get("name")
        if isinstance(name, str):
            yield from _label(name, child(where, "name"), "a volume's name")
            yield from once(name, seen, child(where, "name"))
        given = [source for source in sources if volume.get(source) is not None]
        if len(given) > 1:
            yield Problem(where, f"has more than one source ({', '.join(given)}); leave one")


def _volume_names(spec: Mapping[str, Any]) -> set[str]:
    return {volume["name"] for _, volume in _listed(spec, "volumes", "") if isinstance(volume.get("name"), str)}


# What the checks have in common


def _inside(value: Any, key: str) -> Mapping[str, Any]:
    """Return the mapping under a key; an empty one where there is none."""
    inside = value.get(key) if isinstance(value, dict) else None
    return inside if isinstance(inside, dict) else {}


def _listed(value: Mapping[str, Any], key: str, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the mappings in the list under a key, with their paths."""
    given = value.get(key)
    for index, item in enumerate(given if isinstance(given, list) else ()):
        if isinstance(item, dict):
            yield child(child(path, key), index), item


def _label(name: str, path: str, what: str) -> Iterator[Problem]:
    if not is_dns_label(name) or name.endswith("\n"):
        yield Problem(path, f"{show(name)} cannot be {what}; write at most 63 small letters, digits and '-'")


def _exactly_one(value: Mapping[str, Any], names: Any, path: str, what: str) -> Iterator[Problem]:
    given = [name for name in names if value.get(name) is not None]
    if not given:
        yield Problem(path, f"has no {what}; write one of {', '.join(sorted(names))}")
    elif len(given) > 1:
        yield Problem(path, f"has more than one {what} ({', '.join(given)}); leave one")
