"""Pod, service, host and label names: built here and nowhere else."""

import re

DOMAIN = "trainwright.dev"

JOB_LABEL = f"{DOMAIN}/job"
"""On every object we create: the job it belongs to. Caches select by it."""
VERSION_LABEL = f"{DOMAIN}/version"
"""On every pod: how often the job had been restarted as a whole when the pod was made."""
GANG_LABEL = f"{DOMAIN}/gang"
"""On pods that start together or not at all: the gang's name."""
GANG_MIN_ANNOTATION = f"{DOMAIN}/gang-min"
"""On the pods of a gang: how many of them must fit before any starts."""
GANG_GATE = f"{DOMAIN}/gang"
"""The scheduling gate that holds a pod back until its gang fits."""
GANG_WAITS_ANNOTATION = f"{DOMAIN}/gang-waits"
"""On the first pod of a gang that is held back: why, in words."""
RECORD_ANNOTATION = f"{DOMAIN}/record"
LENIENT_ANNOTATION = f"{DOMAIN}/lenient"
CANCEL_ANNOTATION = f"{DOMAIN}/cancel"
"""On a job: somebody wants it to end, and who; kinds that have no other way of being told so look at it."""
ELASTIC_ANNOTATION = f"{DOMAIN}/elastic"
"""On a Volcano Job: the task that may be resized while the job runs."""
AUTOSCALE_ANNOTATION = f"{DOMAIN}/autoscale"
"""On a job: "false" keeps the autoscaler from changing its size."""
SCALED_ANNOTATION = f"{DOMAIN}/scaled"
"""On a job: what the autoscaler last did to its size, and why; written together with the size."""
RETRY_ANNOTATION = f"{DOMAIN}/retry-of"
"""On a job that runs another once more: the name of the first of them."""
WAIT_FOR_ANNOTATION = f"{DOMAIN}/wait-for"
"""On a job or a pod template: the roles to wait for before the containers start, each with a port or without."""

KUBEFLOW = "training.kubeflow.org"
OPERATOR_NAME_LABEL = f"{KUBEFLOW}/operator-name"
JOB_NAME_LABEL = f"{KUBEFLOW}/job-name"
REPLICA_TYPE_LABEL = f"{KUBEFLOW}/replica-type"
REPLICA_INDEX_LABEL = f"{KUBEFLOW}/replica-index"
JOB_ROLE_LABEL = f"{KUBEFLOW}/job-role"

VOLCANO = "volcano.sh"
TASK_LABEL = f"{VOLCANO}/task-spec"
TASK_INDEX_LABEL = f"{VOLCANO}/task-index"
VOLCANO_JOB_LABEL = f"{VOLCANO}/job-name"
VOLCANO_NAMESPACE_LABEL = f"{VOLCANO}/job-namespace"
QUEUE_LABEL = f"{VOLCANO}/queue-name"
PARTITION_LABEL = f"{VOLCANO}/partition-id"

PADDLE_JOB_LABEL = "paddlepaddle.org/job-name"

LABEL_LENGTH = 63
_DNS_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def pod(job: str, role: str, index: int) -> str:
    """Return the name of one replica's pod; it is also its host name."""
    return f"{job}-{role.lower()}-{index}".replace("/", "-")


def is_dns_label(name: str, *, letter_first: bool = False) -> bool:
    """Say whether a name can be a host name; Services also need a letter first."""
    pattern = _DNS_1035 if letter_first else _DNS_1123
    return len(name) <= LABEL_LENGTH and bool(pattern.fullmatch(name))
