"""ssh: the replicas of a job may log in to each other, with one key pair per job and without questions.

The keys are made once, when the Secret is; a restart keeps them. The server is the image's business. A host key is new
in every pod, so nobody's is checked: the key pair is what keeps strangers out.
"""

import base64
from dataclasses import dataclass

from trainwright.api.common import Job
from trainwright.core.actions import Create
from trainwright.core.resources import SECRET
from trainwright.frameworks.base import Framework, Mount, Net, Replica, Wiring, bare, hosts, port_flag

ROOT_PATH = "/root/.ssh"
COMMON_PATH = "/etc/volcano-ssh"
KEYS = "ssh-keys"
"""What whoever makes the Secret puts in: id_rsa, id_rsa.pub and authorized_keys."""
_FILES = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
_FOLDER = ".ssh"
_PRIVATE, _READABLE = 0o600, 0o644


@dataclass(frozen=True)
class Options:
    """Flags a user may give: ``ssh: ["--ssh-port=2222"]``."""

    ssh_key_file_path: str = ""
    """Where the keys appear; nothing: root's own folder, or one for everybody with --no-root."""
    ssh_private_key: str = ""
    ssh_public_key: str = ""
    ssh_port: int = port_flag(22, forgiving=True)
    no_root: bool = False

    @property
    def path(self) -> str:
        """Return where the keys appear."""
        return self.ssh_key_file_path or (COMMON_PATH if self.no_root else ROOT_PATH)


def wire(job: Job, replica: Replica, options: Options, net: Net) -> Wiring:  # noqa: ARG001 - every framework is asked so
    """Give one replica the keys of the job."""
    if not net.names:
        return Wiring()
    # ssh refuses a private key of root's that others may read; another user could not read it otherwise.
    mode = _PRIVATE if options.path == ROOT_PATH else _READABLE
    items = [{"key": name, "path": f"{_FOLDER}/{name}", "mode": mode} for name in _FILES]
    volume = {"name": secret(job), "secret": {"secretName": secret(job), "items": items, "defaultMode": mode}}
    return Wiring(
        mounts=(Mount(volume, options.path, "the keys by which replicas log in to each other", _FOLDER),),
        init_steps_too=True,
    )


def objects(job: Job, options: Options, net: Net) -> tuple[Create, ...]:  # noqa: ARG001
    """Return the Secret with the keys, which are made with it unless the user has brought some."""
    files = {"config": config(job, options.ssh_port)}
    if options.ssh_private_key:
        public = options.ssh_public_key
        files |= {"id_rsa": options.ssh_private_key, "id_rsa.pub": public, "authorized_keys": public}
    data = {name: base64.b64encode(text.encode()).decode() for name, text in files.items()}
    obj = bare(SECRET, secret(job), {"type": "Opaque", "data": data})
    return (Create(obj, fill="" if options.ssh_private_key else KEYS),)


def secret(job: Job) -> str:
    """Return the name of the Secret with the keys."""
    return f"{job.name}-ssh"


def config(job: Job, number: int) -> str:
    """Return what ssh reads: no questions, and where each replica is reached under its short name."""
    lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    for role in job.roles:
        for host in hosts(job, role.name):
            lines += [f"Host {host.partition('.')[0]}", f"  HostName {host}", f"  Port {number}"]
    return "\n".join(lines) + "\n"


FRAMEWORK = Framework(
    "ssh",
    Options,
    wire,
    "logins between replicas, with a key pair of the job's own",
    objects=objects,
    nameless=("warning", "keys are only given to pods with files and addresses of their own"),
)
