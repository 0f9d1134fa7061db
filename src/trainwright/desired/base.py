"""Settings, Desired, Injection: what a home gives, what a job should have, and why each added field is there."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from trainwright import __version__
from trainwright.api.mpi_job import NodeSize
from trainwright.core.actions import Create
from trainwright.core.objects import Object
from trainwright.frameworks.base import HostNames, Net

Gang = Literal["none", "labels", "gates", "native", "volcano", "scheduler-plugins"]
"""How pods that start together are kept together; what each means is in `gangs.py`."""


@dataclass(frozen=True)
class Settings:
    """What the home decides about the objects of every job: addresses, and how a pod waits for a peer."""

    net: Net
    wait_image: str
    wait_command: tuple[str, ...]
    """Runs `inpod/wait_for.py`; ``--host`` and ``--seconds`` are added."""
    wait_resources: Object = field(default_factory=dict)
    """What such a step asks for; nothing where it costs nothing, so that small jobs fit small machines."""
    pulls: bool = True
    """Images are pulled; else our own way to wait is taken whatever image the user named for it."""
    gang: Gang = "labels"
    gang_scheduler: str = ""
    """The scheduler that keeps gangs together, if not the one that goes with the strategy."""
    per_node: NodeSize = field(default_factory=NodeSize)
    """What one worker of an MPIJob takes where the job does not say it."""
    kubectl_image: str = ""
    """The image that brings kubectl into a launcher's pod."""
    kubectl_command: tuple[str, ...] = ()
    """How it does so; nothing: as the image itself does."""
    one_machine: bool = False
    """All pods share one machine: its cores, and its folder for temporary files."""


KUBERNETES = Settings(
    HostNames(),
    f"trainwright:{__version__}",
    ("python", "-m", "trainwright.inpod.wait_for"),
    {"requests": {"cpu": "50m", "memory": "16Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}},
    gang="none",
    kubectl_image=f"trainwright:{__version__}",
    kubectl_command=("sh", "-c", 'cp "$(command -v kubectl)" "$TARGET_DIR/kubectl"'),
)
"""The objects as a cluster gets them, which is also what `tw render` shows."""


@dataclass(frozen=True)
class Injection:
    """One field of a pod that we set or change, or leave because the user has set it: a row of `tw explain`."""

    pod: str
    path: str
    value: str
    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class WantedPod:
    """A pod that should exist. It is only built when it is missing, which it rarely is."""

    name: str
    role: str
    index: int
    make: Callable[[], Object]
    explained: Callable[[], "BuiltPod"]
    """Makes it with the reasons, which few ask for and which take longer than the pod."""
    first: bool = True
    """Others wait for it; else it may as well come later."""


@dataclass(frozen=True)
class BuiltPod:
    """A pod, and how it came to differ from its template."""

    object: Object
    injections: tuple[Injection, ...]


@dataclass(frozen=True)
class Desired:
    """Everything a job should have while it runs, in the order in which it is made."""

    support: tuple[Create, ...]
    """Services, autoscalers and the like: made before the pods that need them, and kept as they are here."""
    pods: tuple[WantedPod, ...]
    indirect: tuple[WantedPod, ...] = ()
    """Pods that another controller makes from a template among `support`: they are explained here and not made."""
    notes: tuple[Injection, ...] = ()
    """What the job itself is given beyond its manifest; in the place of a pod they name the job."""


def render(desired: Desired) -> Iterator[Object]:
    """Yield every object a job would create, in creation order."""
    yield from (each.object for each in desired.support)
    for pod in desired.pods:
        yield pod.make()


def explain(desired: Desired, role: str = "") -> Iterator[Injection]:
    """Yield every field we add to a job's pods and why, pod by pod; with `role`, only of that role's."""
    if not role:
        yield from desired.notes
    for pod in (*desired.pods, *desired.indirect):
        if not role or pod.role.lower() == role.lower():
            yield from pod.explained().injections
