"""Where the API server is and who we are: kubeconfig files as kubectl reads them, or a pod's own service account.

Several files in KUBECONFIG are merged as kubectl merges them: the first file that names a cluster, a user or a context
wins. Paths in a file are relative to that file. What this module returns is a value; secrets that rotate are named by
their file and read by `auth`, again and again.
"""

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, cast
from urllib.parse import SplitResult, unquote, urlsplit

from trainwright.core.errors import HomeError, did_you_mean

IN_CLUSTER: Final = "in-cluster"
"""The context of a pod's own account."""
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
UNIX = "unix"
"""The scheme of a server that listens on a socket of this machine."""
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"

Interactive = Literal["Never", "IfAvailable", "Always"]


@dataclass(frozen=True)
class Material:
    """A certificate or a key: a file that may change, or the bytes themselves."""

    path: Path | None = None
    data: bytes = b""

    def read(self) -> bytes:
        """Return the bytes as they are now."""
        if self.path is None:
            return self.data
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise HomeError(f"cannot read {self.path}: {error.strerror}") from error


@dataclass(frozen=True)
class Server:
    """An API server, and how to reach and know it: https://HOST:PORT, or unix:///PATH for a socket on this machine."""

    url: str
    ca: Material | None = None
    insecure: bool = False
    tls_name: str = ""
    """The name its certificate is for, if that is not the host of the URL."""
    proxy: str = ""
    exec_config: Any = None
    """What the file wants exec plugins to know of this cluster."""

    @property
    def parts(self) -> SplitResult:
        """Return the URL taken apart."""
        return urlsplit(self.url)

    @property
    def socket(self) -> str:
        """Return the path of the socket it listens on; nothing for one that is reached by its address."""
        parts = self.parts
        return unquote(parts.path) if parts.scheme == UNIX else ""

    @property
    def base(self) -> str:
        """Return what stands in front of the path of every request."""
        return "" if self.socket else self.parts.path.rstrip("/")

    @property
    def host(self) -> str:
        """Return what requests name as their host."""
        return "localhost" if self.socket else self.parts.netloc.rpartition("@")[2]


@dataclass(frozen=True)
class Plugin:
    """A program that prints credentials."""

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    hint: str = ""
    cluster_info: bool = False
    interactive: Interactive = "IfAvailable"


@dataclass(frozen=True)
class User:
    """Who we are: at most one of token, basic and plugin, and a certificate if any."""

    token: str = ""
    token_file: Path | None = None
    certificate: Material | None = None
    key: Material | None = None
    username: str = ""
    password: str = ""
    plugin: Plugin | None = None
    impersonate: tuple[tuple[str, str], ...] = ()
    """Headers by which we act for somebody else."""


@dataclass(frozen=True)
class Access:
    """All that is needed to talk to one API server."""

    server: Server
    user: User = User()
    namespace: str = "default"
    context: str = ""


def load(kubeconfig: str | None = None, context: str | None = None, environ: Mapping[str, str] | None = None) -> Access:
    """Return the access a kubeconfig gives: that file, or KUBECONFIG, or ~/.kube/config, or a pod's own account."""
    environ = os.environ if environ is None else environ
    files = _files(kubeconfig, environ)
    if not files and not context and "KUBERNETES_SERVICE_HOST" in environ:
        return in_cluster(environ)
    if not files:
        raise HomeError(
            "no kubeconfig was found: neither in KUBECONFIG nor at ~/.kube/config, and this is no pod; "
            "name one with --kubeconfig"
        )
    return _Config(files).access(context)


def in_cluster(environ: Mapping[str, str], account: Path = SERVICE_ACCOUNT) -> Access:
    """Return the access every pod has by its service account; token and CA are read again when they rotate."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    token = account / "token"
    if not host or not token.exists():
        raise HomeError(f"this pod has no API access: KUBERNETES_SERVICE_HOST is {host!r}, and {token} is needed")
    namespace = account / "namespace"
    return Access(
        Server(f"https://{f'[{host}]' if ':' in host else host}:{port}", Material(account / "ca.crt")),
        User(token_file=token),
        namespace.read_text().strip() if namespace.exists() else "default",
        IN_CLUSTER,
    )


def _files(kubeconfig: str | None, environ: Mapping[str, str]) -> list[Path]:
    """Return the files to merge. One that was named must be there; of a list in KUBECONFIG some may be missing."""
    if kubeconfig:
        path = Path(kubeconfig).expanduser()
        if not path.is_file():
            raise HomeError(f"there is no kubeconfig at {path}")
        return [path]
    if listed := environ.get("KUBECONFIG"):
        paths = [Path(each).expanduser() for each in dict.fromkeys(listed.split(os.pathsep)) if each]
        return [path for path in paths if path.is_file()]
    path = Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"
    return [path] if path.is_file() else []


class _Config:
    """Several kubeconfig files as one."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = files
        self.current = ""
        self.named: dict[str, dict[str, tuple[dict[str, Any], Path]]] = {"clusters": {}, "users": {}, "contexts": {}}
        for file in files:
            self._add(file)

    def access(self, context: str | None) -> Access:
        name = context or self.current
        if not name:
            raise self._wrong("no current-context is set", "name a context", "contexts", "")
        chosen, _ = self._named("contexts", name, "context")
        server, where = self._named("clusters", chosen.get("cluster", ""), f"context {name!r}: cluster")
        user: User = User()
        if chosen.get("user"):
            entry, beside = self._named("users", chosen["user"], f"context {name!r}: user")
            user = _user(entry, beside, f"user {chosen['user']!r}")
        return Access(
            _server(server, where, f"cluster {chosen['cluster']!r}"), user, chosen.get("namespace") or "default", name
        )

    def _add(self, file: Path) -> None:
        import yaml  # a server that is known without a file is reached without it

        try:
            content = yaml.load(file.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader)) or {}  # noqa: S506
        except OSError as error:
            raise HomeError(f"cannot read {file}: {error.strerror}") from error
        except yaml.YAMLError as error:
            raise HomeError(f"{file} is no YAML: {error}") from error
        if not isinstance(content, dict):
            raise HomeError(f"{file} is no kubeconfig: expected clusters, users and contexts")
        self.current = self.current or content.get("current-context") or ""
        for plural, entries in self.named.items():
            singular = plural.removesuffix("s")
            for entry in content.get(plural) or ():
                if isinstance(entry, dict) and isinstance(entry.get("name"), str):
                    entries.setdefault(entry["name"], (entry.get(singular) or {}, file.absolute().parent))

    def _named(self, plural: str, name: str, what: str) -> tuple[dict[str, Any], Path]:
        if name not in self.named[plural]:
            raise self._wrong(f"{what} {name!r} is not there", "", plural, name)
        return self.named[plural][name]

    def _wrong(self, problem: str, advice: str, plural: str, name: str) -> HomeError:
        known = self.named[plural]
        there = f" (there are: {', '.join(sorted(known))})" if known else f" (there are no {plural})"
        close = did_you_mean(name, known) if name else f"; {advice}"
        return HomeError(f"{os.pathsep.join(map(str, self.files))}: {problem}{close}{there}")


def _server(entry: dict[str, Any], where: Path, what: str) -> Server:
    url = str(entry.get("server") or "")
    parts = urlsplit(url)
    reachable = parts.path.startswith("/") if parts.scheme == UNIX else parts.hostname
    if parts.scheme not in ("http", "https", UNIX) or not reachable:
        raise HomeError(f"{what}: server: found {url!r}, expected https://HOST:PORT or unix:///PATH")
    ca = _material(entry, "certificate-authority", where, what)
    insecure = entry.get("insecure-skip-tls-verify") is True
    if insecure and ca:
        raise HomeError(f"{what}: insecure-skip-tls-verify and certificate-authority exclude each other; remove one")
    proxy = str(entry.get("proxy-url") or "")
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise HomeError(f"{what}: proxy-url: found {proxy!r}, expected http://HOST:PORT or https://HOST:PORT")
    extensions = entry.get("extensions") or ()
    config = next((each.get("extension") for each in extensions if each.get("name") == _EXEC_EXTENSION), None)
    return Server(url.rstrip("/"), ca, insecure, str(entry.get("tls-server-name") or ""), proxy, config)


def _user(entry: dict[str, Any], where: Path, what: str) -> User:
    if entry.get("auth-provider"):
        name = (entry["auth-provider"] or {}).get("name", "")
        raise HomeError(f"{what}: auth-provider {name!r} was removed from Kubernetes in 1.26; use an exec plugin")
    plugin = _plugin(entry["exec"], where, what) if entry.get("exec") else None
    token_file = where / entry["tokenFile"] if entry.get("tokenFile") else None
    certificate = _material(entry, "client-certificate", where, what)
    key = _material(entry, "client-key", where, what)
    if (certificate is None) != (key is None):
        there, missing = ("client-certificate", "client-key") if certificate else ("client-key", "client-certificate")
        raise HomeError(f"{what}: {there} is given but {missing} is not; both are needed")
    given = [
        name
        for name, value in (("token", entry.get("token") or token_file), ("username", entry.get("username")))
        if value
    ]
    if len(given) > 1 or (given and plugin):
        raise HomeError(f"{what}: {' and '.join([*given, *(['exec'] if plugin else [])])} exclude each other; keep one")
    return User(
        token=_header(entry.get("token"), f"{what}: token"),
        token_file=token_file,
        certificate=certificate,
        key=key,
        username=str(entry.get("username") or ""),
        password=str(entry.get("password") or ""),
        plugin=plugin,
        impersonate=tuple(_impersonation(entry, what)),
    )


def _plugin(entry: dict[str, Any], where: Path, what: str) -> Plugin:
    version, command = str(entry.get("apiVersion") or ""), str(entry.get("command") or "")
    if version not in EXEC_VERSIONS:
        raise HomeError(f"{what}: exec.apiVersion: found {version!r}, expected {' or '.join(EXEC_VERSIONS)}")
    if not command:
        raise HomeError(f"{what}: exec.command is missing")
    interactive = entry.get("interactiveMode") or ("" if version == EXEC_VERSIONS[0] else "IfAvailable")
    if interactive not in ("Never", "IfAvailable", "Always"):
        raise HomeError(f"{what}: exec.interactiveMode: found {interactive!r}, expected Never, IfAvailable or Always")
    return Plugin(
        command=str(where / command) if os.sep in command else command,
        api_version=version,
        args=tuple(map(str, entry.get("args") or ())),
        env={str(each["name"]): str(each.get("value", "")) for each in entry.get("env") or ()},
        hint=str(entry.get("installHint") or ""),
        cluster_info=entry.get("provideClusterInfo") is True,
        interactive=cast("Interactive", interactive),
    )


def _impersonation(entry: dict[str, Any], what: str) -> list[tuple[str, str]]:
    headers = []
    for field_name, header in (("as", "Impersonate-User"), ("as-uid", "Impersonate-Uid")):
        if value := _header(entry.get(field_name), f"{what}: {field_name}"):
            headers.append((header, value))
    headers += [("Impersonate-Group", _header(group, f"{what}: as-groups")) for group in entry.get("as-groups") or ()]
    for name, values in (entry.get("as-user-extra") or {}).items():
        quoted = "".join(each if each.isalnum() or each in "-._" else f"%{ord(each):02X}" for each in str(name))
        headers += [(f"Impersonate-Extra-{quoted}", _header(value, f"{what}: as-user-extra")) for value in values]
    if headers and not entry.get("as"):
        raise HomeError(f"{what}: as-groups, as-uid and as-user-extra need as: whom to act for")
    return headers


def _material(entry: dict[str, Any], name: str, where: Path, what: str) -> Material | None:
    """Return what `name` or `name-data` says; data wins, as it does for kubectl."""
    if data := entry.get(f"{name}-data"):
        try:
            return Material(data=base64.b64decode(data, validate=True))
        except (binascii.Error, ValueError, TypeError) as error:
            raise HomeError(f"{what}: {name}-data is not base64: {error}") from error
    return Material(where / entry[name]) if entry.get(name) else None


def _header(value: Any, what: str) -> str:
    text = str(value or "").strip()
    if not text.isprintable():
        raise HomeError(f"{what}: has a character that cannot stand in an HTTP header")
    return text
