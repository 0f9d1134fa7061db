"""One process of a pod: made, watched and ended together with everything it starts.

The supervisor is forked by the pod's init for each container and each exec. It makes the container's mounts in a mount
namespace of its own, starts the command, adopts whatever the command orphans, and tells the agent how it ended.
The agent holds the other end of its socket: when that closes, the whole tree ends.
"""

from __future__ import annotations

import errno
import os
import signal
import stat

from trainwright.node import linux, mounts
from trainwright.node.channel import Channel, unpack
from trainwright.node.trees import Children, end_all, reap, release_signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence

    from trainwright.node.channel import Message

_SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where a command is looked for when the environment has no PATH."""


def supervise(
    end: socket.socket, payload: int, stdio: Sequence[int | None], note: int | None, *, namespaces: bool
) -> None:
    """Start what the payload says, stay until it has ended, and note how if there is where."""
    linux.die_with_parent()
    linux.adopt_orphans()
    channel = Channel(end)
    children = Children()
    spec = unpack(payload)
    try:
        if spec["mounts"] and namespaces:
            linux.unshare(linux.NEWNS)
            mounts.apply(spec["mounts"])
        command = _start(spec, stdio, channel)
        for fd in stdio:
            if fd is not None:
                os.close(fd)
        if command:
            _watch(channel, children, command, note, leave=spec["leave_children"])
    except mounts.MountError as error:
        channel.send({"error": str(error)})
    except ConnectionError:  # the agent has gone
        end_all()
    except OSError as error:
        channel.send({"error": f"cannot start a process: {_words(error)}"})


def _start(spec: Message, stdio: Sequence[int | None], channel: Channel) -> int:
    """Fork and exec; return the process id, or 0 when the agent was told why it cannot be."""
    read, write = os.pipe()
    command = os.fork()
    if not command:
        try:
            _become(spec, stdio, channel)
        except BaseException as error:  # noqa: BLE001 - nothing may return into the supervisor's code
            os.write(write, (str(error) or type(error).__name__).encode(errors="replace")[:4000])
        os._exit(127)
    os.close(write)
    with open(read, "rb") as file:  # ends when exec has closed the other end
        problem = file.read()
    if problem:
        os.waitpid(command, 0)
        channel.send({"error": problem.decode(errors="replace")})
        return 0
    channel.send({"started": command})
    return command


def _become(spec: Message, stdio: Sequence[int | None], channel: Channel) -> None:
    """Turn into the command. What is raised here is told to the user as it is."""
    linux.die_with_parent()
    os.setsid()
    release_signals()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    # The kernel adds the sender's process id, translated for the agent: the one the host knows.
    channel.send({"pid": os.getpid()})
    nothing = os.open(os.devnull, os.O_RDWR)
    for number, fd in enumerate(stdio):
        os.dup2(nothing if fd is None else fd, number)
    if spec["terminal"]:
        linux.control_terminal(0)
    if spec["user"]:
        _belong_to(*spec["user"])
    folder = spec["cwd"]
    try:
        os.chdir(folder)
    except OSError as error:
        raise SystemExit(f"working directory {folder!r}: {_words(error)}") from error
    argv, env = spec["argv"], spec["env"]
    path = _find(argv[0], env)
    try:
        os.execve(path, argv, env)  # noqa: S606 - this is what a supervisor is for
    except ValueError as error:  # a NUL byte or an = in a name
        raise SystemExit(f"cannot start {argv[0]!r}: {error}") from error
    except OSError as error:
        raise SystemExit(_why_not(path, error)) from error


def _belong_to(uid: int, gid: int, groups: Sequence[int]) -> None:
    """Become another user's, for good: what that user mounts in the pod must not fool a program that makes one root."""
    linux.no_new_privileges()
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    linux.die_with_parent()  # the kernel forgets it when the user changes


def _find(name: str, env: Mapping[str, str]) -> str:
    """Return the path of a command, looked for as a shell would in the pod's own PATH."""
    if "/" in name:
        return name
    path = env.get("PATH", _SEARCHED)
    denied = ""
    for folder in path.split(":"):
        candidate = os.path.join(folder or ".", name)
        if os.path.isfile(candidate):
            if os.access(candidate, os.X_OK):
                return candidate
            denied = denied or candidate
    if denied:
        raise SystemExit(_why_not(denied, OSError(errno.EACCES, os.strerror(errno.EACCES))))
    raise SystemExit(f"command not found: {name!r} is in no folder of PATH ({path})")


def _why_not(path: str, error: OSError) -> str:
    """Say in words why exec refused `path`."""
    if error.errno == errno.E2BIG:
        return f"cannot start {path!r}: arguments and environment together are too long for the kernel"
    if error.errno == errno.ENOEXEC:
        return f"cannot start {path!r}: not a program of this machine, and no script with a #! line"
    try:
        mode = os.stat(path).st_mode
    except OSError as missing:
        if missing.errno == errno.ENOENT:
            return f"command not found: {path!r} does not exist (working directory {os.getcwd()})"
        return f"cannot start {path!r}: {_words(missing)}"
    if stat.S_ISDIR(mode):
        return f"cannot start {path!r}: it is a folder"
    if error.errno == errno.EACCES and not os.access(path, os.X_OK):
        return f"cannot start {path!r}: permission denied, it is not executable (chmod +x, or name its interpreter)"
    if error.errno == errno.ENOENT:
        return f"cannot start {path!r}: its interpreter does not exist{_interpreter(path)}"
    return f"cannot start {path!r}: {_words(error)}"


def _interpreter(path: str) -> str:
    try:
        with open(path, "rb") as file:
            line = file.readline(256)
    except OSError:
        return ""
    return f" ({line[2:].decode(errors='replace').strip()})" if line.startswith(b"#!") else ""


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _watch(channel: Channel, children: Children, command: int, note: int | None, *, leave: bool) -> None:
    """Obey the agent until the command has ended, then end what it left behind."""
    ended: dict[int, int] = {}
    listening = True
    while listening and command not in ended:
        readable = children.wait(channel.socket)
        ended |= reap()
        if readable and command not in ended:
            listening, leave = _obey(channel, command, leave)
    if command in ended:
        _note(note, ended[command])
    if not leave:
        ended |= end_all()
    code = os.waitstatus_to_exitcode(ended[command])
    channel.send({"code": code} if code >= 0 else {"signal": -code})


def _note(note: int | None, status: int) -> None:
    """Note an end that nobody asked for, before anything else: everything may end here at any moment."""
    if note is None:
        return
    code = os.waitstatus_to_exitcode(status)
    try:
        os.pwrite(note, (f"code {code}\n" if code >= 0 else f"signal {-code}\n").encode(), 0)
    except OSError:  # the agent is told all the same
        return


def _obey(channel: Channel, command: int, leave: bool) -> tuple[bool, bool]:
    """Do what the agent asks; return whether to go on, and whether to leave children behind in the end."""
    received = channel.receive()
    if received is None:
        return False, False
    for item in received:
        if "kill" in item.message:
            return False, False
        try:
            os.kill(command, item.message["signal"])
        except ProcessLookupError:
            continue
    return True, leave
