"""PaddlePaddle in a TrainingJob: master, parameter servers and trainers find each other by environment alone.

Everybody gets the variables of the first release (TRAINERS, PADDLE_INIT_*) and those Paddle reads today. Indices are
those of the pods and never move, so a trainer that is made again has the rank it had; no pod asks an API server.

What a pod runs is said by the job's entrypoint and not by a template. An image of the first generation brings servers
of its own (it has `paddle_k8s`); in every other image the parameter servers run the entrypoint too, which sees by
TRAINING_ROLE what it is, and the master has nothing to do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING
from typing import Any

from trainwright.api.common import Job
from trainwright.core import quantity
from trainwright.core.objects import at
from trainwright.frameworks.base import Endpoint, Entry, Framework, Net, Replica, Wiring

MASTER, PSERVER, TRAINER, ETCD = "master", "pserver", "trainer", "etcd"
GPU = "nvidia.com/gpu"
ETCD_PORT = 2379
_FIRST_GENERATION = "command -v paddle_k8s >/dev/null 2>&1"
# A shell that waits for a trainer does not pass on the signal to stop: plain words are run without one.
_WORK = r"""cd "${TRAINER_PACKAGE:-.}" 2>/dev/null || {
  echo "the workspace $TRAINER_PACKAGE is not there; is it in the image, or on a volume?" >&2; exit 1; }
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
case "$ENTRY" in
  *[!A-Za-z0-9_./=,:@%+\ -]*) ;;
  *) case "$(command -v "${ENTRY%% *}")" in */*) exec $ENTRY ;; esac ;;
esac
exec sh -c "$ENTRY"
"""
_IDLE = 'trap "exit 0" TERM INT; while :; do sleep 3600 & wait $!; done'
_NEW_SERVER = 'exec pserver -port "$PADDLE_INIT_PORT" -num-pservers "$PSERVERS" -etcd-endpoint "http://$MASTER_IP:2379"'
_OLD_SERVER = (
    'exec paddle pserver --use_gpu=0 --port="$PADDLE_INIT_PORT" --ports_num="$PADDLE_INIT_PORTS_NUM" '
    '--ports_num_for_sparse="$PADDLE_INIT_PORTS_NUM_FOR_SPARSE" --nics="$PADDLE_INIT_NICS" '
    '--comment=paddle_process_k8s --num_gradient_servers="$PADDLE_INIT_NUM_GRADIENT_SERVERS"'
)
_MASTER_START = (
    f"if {_FIRST_GENERATION}; then exec paddle_k8s start_master; fi\n"
    'echo "this image has no master of Paddle\'s first generation; trainers need none, so nothing is done here"\n'
    f"{_IDLE}"
)
_ETCD_START = (
    'if ! command -v etcd >/dev/null 2>&1; then echo "there is no etcd here; nothing is done"; '
    f"{_IDLE}; fi\n"
    'exec etcd -name etcd0 -data-dir "$(mktemp -d)" '  # not in the working directory: here that is the user's own
    '-advertise-client-urls "http://$POD_IP:2379,http://$POD_IP:4001" '
    "-listen-client-urls http://0.0.0.0:2379,http://0.0.0.0:4001 "
    '-initial-advertise-peer-urls "http://$POD_IP:2380" -listen-peer-urls http://0.0.0.0:2380 '
    '-initial-cluster "etcd0=http://$POD_IP:2380" -initial-cluster-state new'
)


@dataclass(frozen=True)
class Options:
    """What the job says about its training."""

    port: int = 7164
    ports_num: int = 1
    ports_num_for_sparse: int = 1
    passes: int = 1
    fault_tolerant: bool = False
    entrypoint: str = ""
    workspace: str = ""
    trainers: int = 1
    """The fewest there may be; who trains with a fixed number counts on these."""

    @property
    def ports(self) -> range:
        """Return the ports each server and trainer opens."""
        return range(self.port, self.port + self.ports_num + self.ports_num_for_sparse)


@dataclass(frozen=True)
class _Peers:
    """What is the same for all replicas, worked out once."""

    options: Options
    pservers: tuple[Endpoint, ...]
    trainers: tuple[Endpoint, ...]
    master: Endpoint | None
    common: Mapping[str, Entry]
    uses_gpus: bool


def prepare(job: Job, options: Options, net: Net) -> _Peers:
    """Return where everybody is, and the variables that everybody gets."""

    def ends(role: str, port: int) -> tuple[Endpoint, ...]:
        return tuple(net.endpoint(job, role, index, port) for index in range(job.count(role)))

    masters = ends(MASTER, ETCD_PORT)
    gpus = _amount(job, GPU)
    return _Peers(
        options=options,
        pservers=ends(PSERVER, options.port),
        trainers=ends(TRAINER, options.port),
        master=masters[0] if masters else None,
        common=_common(job, options, gpus or _amount(job, "cpu"), uses_gpus=gpus > 0),
        uses_gpus=gpus > 0,
    )


def wire(job: Job, replica: Replica, peers: _Peers, net: Net) -> Wiring:
    """Tell one replica who it is, where the others are, and what to run."""
    options = peers.options
    if replica.role == MASTER:
        env = {**peers.common, "PADDLE_INIT_PORT": _port(options.port), **_addresses(None)}
        commands = {
            MASTER: (_shell(_MASTER_START), "starts the master that the image brings, if it brings one"),
            ETCD: (_shell(_ETCD_START), "the master keeps its tasks there"),
        }
        return Wiring(env, commands=commands)
    own = net.endpoint(job, replica.role, replica.index, options.port)
    env = {
        **peers.common,
        "PADDLE_INIT_PORT": _port(own.port),
        **_addresses(own if replica.role == PSERVER else None),
        **_legacy(replica, peers),
        **_modern(replica, peers, own),
    }
    return Wiring(
        env, {f"jobport-{port}": port for port in options.ports}, commands={replica.role: _start(replica, options)}
    )


# The variables of the first release


def _common(job: Job, options: Options, units: int, *, uses_gpus: bool) -> dict[str, Entry]:
    entry = Entry(options.entrypoint, "spec.trainer.entrypoint: what is run")
    return {
        "PADDLE_JOB_NAME": Entry(job.name, "the job's name"),
        "TRAINERS": Entry(str(options.trainers), "spec.trainer.min-instance"),
        "PSERVERS": Entry(str(job.count(PSERVER)), "spec.pserver.min-instance"),
        "ENTRY": entry,
        "TOPOLOGY": Entry(entry.value, "the old name of ENTRY"),
        "TRAINER_PACKAGE": Entry(options.workspace, "spec.trainer.workspace: where it is run"),
        "PADDLE_INIT_TRAINER_COUNT": Entry(str(units), "GPUs of a trainer, or its cores where it has none"),
        "PADDLE_INIT_PORTS_NUM": Entry(str(options.ports_num), "spec.ports_num"),
        "PADDLE_INIT_PORTS_NUM_FOR_SPARSE": Entry(str(options.ports_num_for_sparse), "spec.ports_num_for_sparse"),
        "PADDLE_INIT_NUM_GRADIENT_SERVERS": Entry(str(options.trainers), "spec.trainer.min-instance"),
        "PADDLE_INIT_NUM_PASSES": Entry(str(options.passes), "spec.passes"),
        "PADDLE_INIT_USE_GPU": Entry("1" if uses_gpus else "0", "whether trainers have GPUs"),
        "LD_LIBRARY_PATH": Entry("/usr/local/cuda/lib64", "where images of the first release have CUDA"),
        "PYTHONUNBUFFERED": Entry("1", "output appears as it is printed, not when a buffer is full"),
        "NAMESPACE": Entry("(metadata.namespace)", "the job's namespace", _field("metadata.namespace")),
    }


def _addresses(server: Endpoint | None) -> dict[str, Entry]:
    """Return POD_IP: Paddle looks a server up in the list of servers by it, so there it is written as in the list."""
    if server is not None:
        return {"POD_IP": Entry(server.host, "a server finds itself in the list of servers by it")}
    return {"POD_IP": Entry("(status.podIP)", "the pod's address", _field("status.podIP"))}


def _legacy(replica: Replica, peers: _Peers) -> dict[str, Entry]:
    env: dict[str, Entry] = {}
    if peers.master is not None:
        env["MASTER_IP"] = Entry(peers.master.host, "where the master is")
        env["ETCD_IP"] = Entry(peers.master.host, "where the master's etcd is")
    if peers.pservers:
        env["PADDLE_INIT_PSERVERS"] = Entry(",".join(each.host for each in peers.pservers), "all parameter servers")
    if replica.role == TRAINER:
        env["PADDLE_INIT_TRAINER_ID"] = Entry(str(replica.index), "this trainer's rank: the pod's index")
    return env


# The variables Paddle reads today


def _modern(replica: Replica, peers: _Peers, own: Endpoint) -> dict[str, Entry]:
    role = "TRAINER" if replica.role == TRAINER else "PSERVER"
    trainers = [str(each) for each in peers.trainers]
    if not peers.pservers and replica.index == 0:
        # The launcher serves only on the node whose own address leads the list: a name there would hang for ever.
        own = Endpoint("$(POD_IP)", own.port)
        trainers[0] = str(own)
    env = {
        "TRAINING_ROLE": Entry(role, "what this process is"),
        "PADDLE_TRAINING_ROLE": Entry(role, "the same under another name"),
        "PADDLE_PORT": _port(own.port),
        "PADDLE_TRAINERS_NUM": Entry(str(len(peers.trainers)), "how many trainers there were when the pod was made"),
        "PADDLE_TRAINER_ENDPOINTS": Entry(",".join(trainers), "where every trainer listens, by rank"),
        "PADDLE_CURRENT_ENDPOINT": Entry(str(own), "where this process listens"),
    }
    if replica.role == TRAINER:
        env["PADDLE_TRAINER_ID"] = Entry(str(replica.index), "this trainer's rank: the pod's index")
    else:
        env["PADDLE_PSERVER_ID"] = Entry(str(replica.index), "this server's number: the pod's index")
    if peers.pservers:
        servers = ",".join(map(str, peers.pservers))
        return {**env, "PADDLE_PSERVERS_IP_PORT_LIST": Entry(servers, "where every parameter server listens")}
    return {**env, **_collective(replica, peers)}


def _collective(replica: Replica, peers: _Peers) -> dict[str, Entry]:
    """Return what trainers need that talk to each other, started by themselves or by paddle.distributed.launch."""
    first = peers.trainers[0]
    master = Endpoint("$(POD_IP)", first.port) if replica.index == 0 else first
    env = {
        "PADDLE_MASTER": Entry(str(master), "where trainers meet: trainer 0, which knows itself by its address"),
        "PADDLE_NNODES": Entry(str(len(peers.trainers)), "paddle.distributed.launch: one node per pod"),
    }
    if not peers.uses_gpus:
        env["PADDLE_DISTRI_BACKEND"] = Entry("gloo", "without GPUs Paddle must be told how to sum")
    return env


# What is run


def _start(replica: Replica, options: Options) -> tuple[tuple[str, ...], str]:
    if replica.role == TRAINER:
        return _shell(_WORK), "runs the entrypoint in the workspace"
    server = _NEW_SERVER if options.fault_tolerant else _OLD_SERVER
    script = f"if {_FIRST_GENERATION}; then {server}; fi\n{_WORK}"
    return _shell(script), "runs the server that the image brings, else the entrypoint as TRAINING_ROLE=PSERVER"


def _shell(script: str) -> tuple[str, ...]:
    return ("sh", "-c", script)


def _port(port: int) -> Entry:
    return Entry(str(port), "the port this process listens on")


def _field(path: str) -> dict[str, Any]:
    return {"fieldRef": {"fieldPath": path}}


def _amount(job: Job, resource: str) -> int:
    """Return how much a trainer asks for of a resource, rounded up; of what it only limits, the limit."""
    role = job.role(TRAINER)
    containers = at(role.template, ("spec", "containers")) if role else None
    resources = (containers or [{}])[0].get("resources") or {}
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return int(quantity.parse(amounts.get(resource, 0)).to_integral_value(rounding=ROUND_CEILING))


FRAMEWORK = Framework(
    "paddle", Options, wire, "PaddlePaddle with parameter servers or without, in a TrainingJob", prepare=prepare
)
