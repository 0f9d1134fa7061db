"""Probes and hooks: asking a container whether it has started, is ready, is alive; telling it that it starts or stops.

`read` takes a probe from the manifest, `ask` asks once, `Tally` counts answers against the thresholds (pure), and
`watch` does it again and again. Sockets go through the sandbox, since a pod has a network of its own. gRPC probes are
refused with a sentence.
"""

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trainwright.core.objects import Object
from trainwright.node.base import Sandbox
from trainwright.node.refusals import Refused

ProbeKind = Literal["startupProbe", "readinessProbe", "livenessProbe"]
KINDS: tuple[ProbeKind, ...] = ("startupProbe", "readinessProbe", "livenessProbe")
_ACTIONS = ("exec", "tcpSocket", "httpGet", "sleep")
_SHOWN = 1024


@dataclass(frozen=True)
class Answer:
    """What came of asking once."""

    good: bool
    message: str = ""


@dataclass(frozen=True)
class Action:
    """One thing to do in or to a container: a command, a connection, a request, or only waiting."""

    kind: Literal["exec", "tcpSocket", "httpGet", "sleep"]
    command: tuple[str, ...] = ()
    host: str = ""
    port: int = 0
    path: str = "/"
    tls: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    seconds: float = 0


@dataclass(frozen=True)
class Probe:
    """A probe as the manifest has it, defaults filled in."""

    action: Action
    delay: float
    period: float
    timeout: float
    successes: int
    failures: int
    grace: float | None = None


Run = Callable[[tuple[str, ...]], Awaitable[Answer]]
"""Runs a command in the container and says whether it ended well; cancelling ends the command."""


def read(container: Object, kind: ProbeKind, path: str) -> Probe | None:
    """Return one of a container's probes, or None if it has none; Refused if it cannot be asked here."""
    spec = container.get(kind)
    if not spec:
        return None
    grace = spec.get("terminationGracePeriodSeconds")
    return Probe(
        action=read_action(spec, container, f"{path}.{kind}"),
        delay=float(spec.get("initialDelaySeconds") or 0),
        period=float(spec.get("periodSeconds") or 10),
        timeout=float(spec.get("timeoutSeconds") or 1),
        successes=int(spec.get("successThreshold") or 1),
        failures=int(spec.get("failureThreshold") or 3),
        grace=None if grace is None else float(grace),
    )


def read_action(spec: Mapping[str, Any], container: Object, path: str) -> Action:
    """Return what a probe or a lifecycle hook does."""
    if "exec" in spec:
        return Action("exec", command=tuple(map(str, spec["exec"].get("command") or ())))
    if "tcpSocket" in spec:
        target = spec["tcpSocket"]
        return Action("tcpSocket", host=target.get("host") or "", port=_port(target, container, f"{path}.tcpSocket"))
    if "httpGet" in spec:
        target = spec["httpGet"]
        return Action(
            "httpGet",
            host=target.get("host") or "",
            port=_port(target, container, f"{path}.httpGet"),
            path="/" + str(target.get("path") or "/").lstrip("/"),
            tls=str(target.get("scheme") or "HTTP").upper() == "HTTPS",
            headers=tuple((each["name"], each.get("value", "")) for each in target.get("httpHeaders") or ()),
        )
    if "sleep" in spec:
        return Action("sleep", seconds=float(spec["sleep"].get("seconds") or 0))
    if "grpc" in spec:
        raise Refused(f"{path}.grpc: gRPC probes are not asked here; use exec, tcpSocket or httpGet")
    raise Refused(f"{path}: it says nothing to do (there are: {', '.join(_ACTIONS[:3])})")


async def ask(action: Action, sandbox: Sandbox, run: Run, timeout: float) -> Answer:
    """Do it once; an answer that takes longer than `timeout` is a bad one."""
    try:
        async with asyncio.timeout(timeout):
            return await _ask(action, sandbox, run)
    except TimeoutError:
        return Answer(False, f"{_shown(action)}: no answer within {timeout:g} s")
    except OSError as error:
        return Answer(False, f"{_shown(action)}: {os.strerror(error.errno).lower() if error.errno else error}")


class Tally:
    """Counts answers in a row against the thresholds."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._last: bool | None = None
        self._run = 0

    def count(self, good: bool) -> bool | None:
        """Return the verdict this answer leads to, None while there are too few of its kind in a row."""
        self._run = self._run + 1 if good == self._last else 1
        self._last = good
        needed = self._probe.successes if good else self._probe.failures
        return good if self._run >= needed else None


async def watch(
    probe: Probe, sandbox: Sandbox, run: Run, verdict: Callable[[bool], bool], bad: Callable[[str], None]
) -> None:
    """Ask until `verdict` says it has heard enough. `bad` hears of every single bad answer."""
    tally = Tally(probe)
    await asyncio.sleep(probe.delay)
    loop = asyncio.get_running_loop()
    while True:
        begun = loop.time()
        answer = await ask(probe.action, sandbox, run, probe.timeout)
        if not answer.good:
            bad(answer.message)
        result = tally.count(answer.good)
        if result is not None and verdict(result):
            return
        await asyncio.sleep(max(0.0, begun + probe.period - loop.time()))


async def _ask(action: Action, sandbox: Sandbox, run: Run) -> Answer:
    if action.kind == "sleep":
        await asyncio.sleep(action.seconds)
        return Answer(True)
    if action.kind == "exec":
        return await run(action.command)
    connected = await sandbox.connect(action.port, action.host)
    if action.kind == "tcpSocket":
        connected.close()
        return Answer(True)
    try:
        reader, writer = await asyncio.open_connection(
            sock=connected,
            ssl=_unverified() if action.tls else None,
            server_hostname=(action.host or sandbox.address) if action.tls else None,
        )
    except BaseException:
        connected.close()
        raise
    try:
        writer.write(_request(action, sandbox.address))
        await writer.drain()
        return _judged(action, await reader.readline())
    finally:
        writer.close()


def _request(action: Action, address: str) -> bytes:
    given = {name.lower() for name, _ in action.headers}
    usual = [("Host", f"{action.host or address}:{action.port}"), ("User-Agent", "kube-probe/1.0"), ("Accept", "*/*")]
    headers = [*((name, value) for name, value in usual if name.lower() not in given), *action.headers]
    lines = [f"GET {action.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "Connection: close"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _judged(action: Action, status_line: bytes) -> Answer:
    words = status_line.decode("latin-1").split(None, 2)
    if len(words) < 2 or not words[0].startswith("HTTP/") or not words[1].isdecimal():
        return Answer(False, f"{_shown(action)}: the answer is not HTTP: {status_line[:_SHOWN]!r}")
    code = int(words[1])
    return Answer(200 <= code < 400, f"{_shown(action)}: the answer was {code}")


def _unverified() -> ssl.SSLContext:
    """As the kubelet: a probe asks whether somebody answers, not who."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _port(target: Mapping[str, Any], container: Object, path: str) -> int:
    port = target.get("port")
    if isinstance(port, int) or str(port).isdecimal():
        return int(str(port))
    ports = {each.get("name"): each["containerPort"] for each in container.get("ports") or () if each.get("name")}
    if port not in ports:
        raise Refused(f"{path}.port: there is no port {port!r} (there are: {', '.join(map(str, ports)) or 'none'})")
    return int(ports[port])


def _shown(action: Action) -> str:
    if action.kind == "exec":
        return f"command {list(action.command)}"
    where = f"{action.host or 'port'} {action.port}" if not action.host else f"{action.host}:{action.port}"
    return f"GET {action.path} at {where}" if action.kind == "httpGet" else f"connection to {where}"
