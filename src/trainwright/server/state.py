"""Where a server keeps everything, who holds that place, and the file by which its clients find it.

serve/lock         held while a server, or anything of a pod it started, lives; says whose it is
serve/store.sqlite every object
serve/api.sock     where it is asked
serve/kubeconfig   how kubectl asks it, token included: only its user may read it
serve/pods, logs   what its pods have
"""

import base64
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from trainwright.core.errors import HomeError
from trainwright.node.certificate import self_signed

_DYING_SECONDS = 20.0
_LOOK_AGAIN = 0.02


@dataclass(frozen=True)
class State:
    """The folder of a server."""

    folder: Path

    @property
    def store(self) -> Path:
        """Return the file that holds every object."""
        return self.folder / "store.sqlite"

    @property
    def socket(self) -> Path:
        """Return the socket by which this user's commands ask."""
        return self.folder / "api.sock"

    @property
    def kubeconfig(self) -> Path:
        """Return the file by which kubectl asks."""
        return self.folder / "kubeconfig"

    def token(self) -> str:
        """Return the secret of those who ask over TCP: made once, so that a kubeconfig stays good."""
        file = self.folder / "token"
        if not file.exists():
            _write_private(file, secrets.token_urlsafe(32))
        return file.read_text().strip()

    def certificate(self) -> Path:
        """Return the key and the certificate of the TCP port: kubectl tells its token only to whom it can trust."""
        file = self.folder / "certificate.pem"
        if not file.exists():
            _write_private(file, self_signed("localhost", "127.0.0.1").decode())
        return file

    def write_kubeconfig(self, port: int) -> None:
        """Say how the server is asked."""
        _, begin, rest = self.certificate().read_text().partition("-----BEGIN CERTIFICATE-----")
        trusted = base64.b64encode((begin + rest).encode()).decode()
        _write_private(self.kubeconfig, _KUBECONFIG.format(port=port, token=self.token(), trusted=trusted))

    @contextmanager
    def held(self) -> Iterator[int]:
        """Hold the folder for one server and yield the lock's descriptor; HomeError says who has it instead."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise HomeError(
                f"{self.folder}: {error.strerror or error}; name a folder that can be written with --state"
            ) from error
        try:
            self._take(lock)
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
            yield lock
        finally:
            os.close(lock)

    def holder(self) -> int | None:
        """Return the process id of the server that runs here, if one does."""
        try:
            lock = os.open(self.folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _alive(lock)
        finally:
            os.close(lock)
        return None

    def _take(self, lock: int) -> None:
        """Take the lock; when only the dying pods of a killed server hold it, wait for them."""
        end = time.monotonic() + _DYING_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pid = _alive(lock)
                if pid or time.monotonic() > end:
                    who = f"a server, process {pid}" if pid else "what a server has left running"
                    raise HomeError(
                        f"{self.folder} is held by {who}; stop it with: kill {pid or 'PID'}, or give another --state"
                    ) from None
                time.sleep(_LOOK_AGAIN)
            else:
                return


def _alive(lock: int) -> int | None:
    """Return the process that says it holds a lock, if it lives."""
    with suppress(ValueError, ProcessLookupError, PermissionError):
        pid = int(os.pread(lock, 32, 0))
        os.kill(pid, 0)
        return pid
    return None


def _write_private(file: Path, text: str) -> None:
    """Write a file that nobody else may read, in one step for whoever looks."""
    draft = file.with_name(f".{file.name}")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
        opened.write(text)
    draft.replace(file)


_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters:
  - name: tw-serve
    cluster: {{server: "https://127.0.0.1:{port}", certificate-authority-data: "{trusted}"}}
users:
  - name: tw-serve
    user: {{token: "{token}"}}
contexts:
  - name: tw-serve
    context: {{cluster: tw-serve, user: tw-serve, namespace: default}}
current-context: tw-serve
"""
