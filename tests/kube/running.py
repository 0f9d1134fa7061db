"""What the tests on a real control plane run: kubectl as a user would, `tw operator` with its own account's rights."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tools.kube import ControlPlane, binaries

from trainwright.operator.rights import Right

SECONDS = 30
ACCOUNT = "system:serviceaccount:trainwright-system:trainwright"
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


class Refusal(Exception):
    """kubectl ended with a failure; what it said."""


class Kubectl:
    """The real kubectl, in one namespace, as administrator or with another kubeconfig."""

    def __init__(self, kubeconfig: Path, namespace: str = "") -> None:
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        self.warnings = ""
        """What the last call said beside its answer."""

    def __call__(self, *words: str, stdin: Any = None) -> str:
        """Return what kubectl prints; `stdin` is text, or an object to be given as JSON."""
        command = [str(binaries() / "kubectl"), f"--kubeconfig={self.kubeconfig}"]
        command += [f"--namespace={self.namespace}"] if self.namespace else []
        given = stdin if isinstance(stdin, str | None) else json.dumps(stdin)
        home = {**os.environ, "HOME": str(self.kubeconfig.parent)}
        done = subprocess.run([*command, *words], input=given, capture_output=True, text=True, check=False, env=home)
        self.warnings = done.stderr
        if done.returncode:
            raise Refusal(f"kubectl {' '.join(words)}: {done.returncode}\n{done.stderr}{done.stdout}")
        return done.stdout

    def get(self, *words: str) -> Any:
        """Return an object, or a list of them."""
        found = json.loads(self("get", *words, "-o", "json"))
        return found["items"] if found["kind"] == "List" else found

    def names(self, *words: str) -> list[str]:
        """Return the names of objects, in order."""
        return sorted(self("get", *words, "-o", "jsonpath={.items[*].metadata.name}").split())

    def apply(self, obj: Any, *flags: str) -> None:
        """Apply an object."""
        self("apply", "-f", "-", *flags, stdin=obj)

    def patch(self, name: str, patch: Any, *flags: str) -> None:
        """Apply a merge patch."""
        self("patch", name, "--type=merge", "-p", json.dumps(patch), *flags)

    def wait(self, name: str, condition: str) -> None:
        """Wait until an object is there and as said."""
        self("wait", "--for=create", name, f"--timeout={SECONDS}s")
        self("wait", f"--for={condition}", name, f"--timeout={SECONDS}s")

    def until_gone(self, *names: str) -> None:
        """Wait until objects are no more."""
        for name in names:
            self("wait", "--for=delete", name, f"--timeout={SECONDS}s")

    def until_names(self, resource: str, *names: str) -> None:
        """Wait until exactly these objects are there."""
        until(lambda: self.names(resource) == sorted(names), f"{resource} are {', '.join(names)}")

    def move(self, phase: str, *pods: str, code: int = 0) -> None:
        """Say of pods what a kubelet would say."""
        ended = {"exitCode": code, "reason": "Completed", "finishedAt": "2026-01-01T00:00:00Z"}
        state = {"running": {}} if phase == "Running" else {"terminated": ended}
        ready = phase == "Running"
        container = {"name": "pytorch", "image": "i", "imageID": "i", "ready": ready, "restartCount": 0, "state": state}
        for pod in pods:
            self("wait", "--for=create", f"pod/{pod}", f"--timeout={SECONDS}s")
            status = {"status": {"phase": phase, "containerStatuses": [container]}}
            self.patch(f"pod/{pod}", status, "--subresource=status")


def until(check: Any, what: str, seconds: float = SECONDS) -> None:
    """Wait for what only asking again can tell."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, f"after {seconds:g} s it is still not so that {what}"
        time.sleep(0.1)


class RunningOperator:
    """A `tw operator` of its own process."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process = process
        self._log = log

    def lines(self) -> list[dict[str, Any]]:
        """Return what it has logged."""
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    @property
    def url(self) -> str:
        """Return where it serves probes and metrics."""
        said = next(line for line in self.lines() if line["message"] == "serving probes and metrics")
        return f"http://{said['host']}:{said['port']}"

    def ask(self, path: str) -> tuple[int, str]:
        """Return the code and the text of an answer; code 0 when there is none."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except (OSError, StopIteration):
            return 0, ""

    def until_ready(self) -> None:
        """Wait until its caches have synced."""
        until(lambda: self.process.poll() is not None or self.ask("/readyz")[0] == 200, "the operator is ready")
        assert self.process.poll() is None, self._log.read_text()

    def stop(self) -> int:
        """Ask it to end, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


@contextlib.contextmanager
def operating(kubeconfig: Path, folder: Path, *flags: str) -> Iterator[RunningOperator]:
    """Run an operator that logs into a folder, and wait until it is ready."""
    log = folder / "operator.log"
    command = [sys.executable, "-m", "trainwright", "operator", f"--kubeconfig={kubeconfig}", "--log-format=json"]
    # Sizes are what the tests say, pods start one by one, and who is stopped goes on later: whoever is about these
    # switches them on again.
    command += ["--no-autoscaler", "--no-leader-elect", "--gang=none"]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, "--log-level=debug", "--metrics-address=127.0.0.1:0", *flags],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    running = RunningOperator(process, log)
    try:
        running.until_ready()
        yield running
    finally:
        running.stop()


def install(kubectl: Kubectl, *flags: str, webhooks: bool = False) -> None:
    """Apply what `tw install` prints, but for the Deployment: the tests run the operator themselves.

    Without `webhooks` nobody is asked about jobs: most operators here serve none.
    """
    command = [sys.executable, "-m", "trainwright", "install", "-o", "json", *flags]
    printed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    left_out = ("Deployment",) if webhooks else ("Deployment", *_WEBHOOKS)
    printed["items"] = [each for each in printed["items"] if each["kind"] not in left_out]
    kubectl.apply(printed)


def account(plane: ControlPlane, kubectl: Kubectl) -> Path:
    """Return a kubeconfig for the operator's own account."""
    token = kubectl("create", "token", "trainwright", "--namespace=trainwright-system", "--duration=8h").strip()
    path = plane.folder / "operator.kubeconfig"
    path.write_text(plane.config(token))
    return path


class Call(NamedTuple):
    """One call, as rights are given: group, resource with subresource, verb."""

    group: str
    resource: str
    verb: str


def as_call(right: Right) -> Call:
    """Return the call that a right is for."""
    return Call(right.group, right.resource, right.verb)


def calls(plane: ControlPlane, user: str = ACCOUNT) -> Iterator[tuple[Call, int, str]]:
    """Yield every call of an account in the API server's own audit log, with the answer's code and message."""
    return audited(plane.audit_log, user)


def audited(log: Path, user: str = ACCOUNT) -> Iterator[tuple[Call, int, str]]:
    """Yield the same, given where that log is."""
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event["user"]["username"] != user or "objectRef" not in event:
            continue
        seen, status = event["objectRef"], event.get("responseStatus") or {}
        resource = "/".join(filter(None, (seen.get("resource"), seen.get("subresource"))))
        call = Call(seen.get("apiGroup", ""), resource, event["verb"])
        yield call, status.get("code", 0), status.get("message", "")


def refused(plane: ControlPlane, user: str = ACCOUNT) -> Counter[str]:
    """Return what an account had no right to do; a quota or a namespace that is going refuses in other words."""
    return Counter(
        f"{' '.join(call)}: {message}"
        for call, code, message in calls(plane, user)
        if code == 401 or (code == 403 and " cannot " in message)
    )
