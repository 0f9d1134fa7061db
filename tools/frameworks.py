"""Makes an environment for each real framework, outside the checkout, so that fresh clones share it.

    python tools/frameworks.py                # all of them, several at once
    python tools/frameworks.py torch ray      # only these
    python tools/frameworks.py --path torch   # only print its python (of sshd: the server), there or not
    python tools/frameworks.py --list         # what there is, and what it costs

Frameworks want versions of numpy, protobuf and Python itself that exclude each other: hence one environment each. The
place is $TRAINWRIGHT_FRAMEWORKS, else ~/.cache/trainwright/frameworks; a name carries a digest of the pins, so a
changed pin makes a new environment and an old one is never half updated. Whatever cannot be made is named at the end,
and the exit code is 1. Only MXNet may be missing where no Python 3.8 can be had: that is said as loudly.
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
AT_ONCE = 4  # installing waits for the network half of the time, and for the disk and two cores the other half
WORD_SECONDS = 15.0  # how often a long installation gives a sign of life
OLDEST_PYTHON = "3.11"  # that the project itself runs on
SSHD = ROOT / "tools" / "sshd.sh"


@dataclass(frozen=True)
class Framework:
    """One environment: what is in it, what it costs, and which Python it must have if not the project's own."""

    name: str
    holds: str
    cost: str
    python: str = ""
    may_skip: bool = False

    @property
    def recipe(self) -> Path:
        """Return the file that says what to install."""
        return SSHD if self.name == "sshd" else ROOT / "requirements" / f"{self.name}.txt"


# The slowest first: the others are done while it downloads.
FRAMEWORKS = (
    Framework("torch", "torch 2.13.0", "4.8 GB"),
    Framework("tensorflow", "TensorFlow 2.21.0", "1.5 GB"),
    Framework("paddle", "Paddle 3.3.1, collective", "850 MB"),
    Framework("paddle-ps", "Paddle 2.6.2, parameter server", "560 MB", python="3.10"),
    Framework("jax", "JAX 0.10.2", "600 MB"),
    Framework("ray", "Ray 2.60.0", "360 MB"),
    Framework("mxnet", "MXNet 1.9.1", "260 MB", python="3.8", may_skip=True),
    Framework("openmpi5", "Open MPI 5.0.11, mpi4py", "90 MB"),
    Framework("openmpi4", "Open MPI 4.1.8, mpi4py", "90 MB"),
    Framework("mpich", "MPICH 5.0.2, mpi4py", "110 MB"),
    Framework("sshd", "the OpenSSH server of Debian", "9 MB"),
)
BY_NAME = {framework.name: framework for framework in FRAMEWORKS}


class MissingError(Exception):
    """A framework cannot be made, and the sentence says why."""


class NoPythonError(MissingError):
    """The Python that a framework needs cannot be had on this machine."""


def place() -> Path:
    """Return the folder that holds the environments."""
    given = os.environ.get("TRAINWRIGHT_FRAMEWORKS")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given else cache / "trainwright" / "frameworks"


def environment(name: str) -> Path:
    """Return the folder of one framework's environment, made or not."""
    framework = BY_NAME[name]
    digest = hashlib.sha256(framework.recipe.read_bytes()).hexdigest()[:12]
    if name == "sshd":
        return place() / f"{name}-{digest}"
    version = framework.python or f"{sys.version_info.major}.{sys.version_info.minor}"
    return place() / f"{name}-py{version}-{digest}"


def python(name: str) -> Path:
    """Return the interpreter of one framework's environment (of sshd: the server), made or not."""
    return environment(name) / "bin" / ("sshd" if name == "sshd" else "python")


def make(framework: Framework) -> str:
    """Install one framework unless it is there, and say how it went; two that try at once wait for each other."""
    target = environment(framework.name)
    with _locked(target):
        if (target / ".ready").exists():
            return "was there"
        _say(f"{framework.name}: installing {framework.holds} ({framework.cost}) into {target}")
        began = time.monotonic()
        shutil.rmtree(target, ignore_errors=True)
        excuse = target.with_name(f"{target.name}.skipped")
        try:
            (_unpack_sshd if framework.name == "sshd" else _install)(framework, target)
        except NoPythonError as error:
            if framework.may_skip:
                excuse.write_text(f"{error}\n")  # the tests read it, to skip with the same words
            raise
        excuse.unlink(missing_ok=True)
        (target / ".ready").touch()
        return f"installed in {time.monotonic() - began:.0f} s"


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# A Python environment


def _install(framework: Framework, target: Path) -> None:
    interpreter = find_python(framework.python) if framework.python else sys.executable
    _run(_uv(), "venv", "--quiet", "--python", interpreter, str(target))
    # Compiled now, because PYTHONDONTWRITEBYTECODE may be set later: importing torch then takes twice as long.
    options = ["--quiet", "--compile-bytecode", "--require-hashes", "-r", str(framework.recipe)]
    _run(_uv(), "pip", "install", "--python", str(target / "bin" / "python"), *options)


def find_python(version: str) -> str:
    """Return an interpreter of that version: one that is here, else one that uv can fetch."""
    for folder in sorted((_pyenv() / "versions").glob(f"{version}.*"), reverse=True):
        if (folder / "bin" / "python").exists():
            return str(folder / "bin" / "python")
    # uv would try pyenv's shims too, and complain of each one that has no version chosen.
    if found := _asked_of_uv("find", version):
        return found
    _asked_of_uv("install", version)
    if found := _asked_of_uv("find", version):
        return found
    raise NoPythonError(
        f"it needs Python {version}; neither pyenv nor uv has one, and uv could not fetch one: "
        f"try `pyenv install {version}` or `uv python install {version}`"
    )


def _asked_of_uv(verb: str, version: str) -> str:
    """Return what uv answers about a Python version, nothing if it cannot help."""
    return subprocess.run([_uv(), "python", verb, version], check=False, capture_output=True, text=True).stdout.strip()


def _pyenv() -> Path:
    return Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")


def _uv() -> str:
    return shutil.which("uv") or str(Path(sys.executable).parent / "uv")


# The ssh server


def _unpack_sshd(framework: Framework, target: Path) -> None:
    """Unpack Debian's packages beside our script that starts the server: nothing is installed, root is not needed."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise MissingError("Debian's apt-get and dpkg-deb are needed, and this machine does not have them")
    (target / "bin").mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        for debian_package in _download(Path(scratch), "openssh-server", "libnss-wrapper"):
            _run("dpkg-deb", "--extract", str(debian_package), str(target / "unpacked"))
    shutil.copy(framework.recipe, target / "bin" / "sshd")
    for program in ("ssh", "ssh-keygen"):
        if not shutil.which(program):
            (target / "bin" / program).symlink_to("sshd")
    _run(str(target / "bin" / "sshd"), "-V")


def _download(scratch: Path, *packages: str) -> list[Path]:
    """Fetch packages, and those they need that are not installed, with apt's state in a folder of our own."""
    (scratch / "lists" / "partial").mkdir(parents=True)
    (scratch / "archives" / "partial").mkdir(parents=True)
    settings = {
        "Dir::State::lists": scratch / "lists",
        "Dir::Cache": scratch,
        "Dir::Cache::archives": scratch / "archives",
        "Debug::NoLocking": "1",  # a plain user cannot lock the machine's package database, which is only read
        "APT::Sandbox::User": "root",  # else apt, as root, downloads as a user that cannot write here
    }
    apt = ["apt-get", "--quiet", *[word for key, value in settings.items() for word in ("-o", f"{key}={value}")]]
    _run(*apt, "update")
    _run(*apt, "install", "--download-only", "--yes", "--no-install-recommends", "--reinstall", *packages)
    return sorted((scratch / "archives").glob("*.deb"))


def _run(*command: str) -> None:
    """Run a command quietly; if it fails, its last words are the reason."""
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        words = "\n    ".join(done.stdout.strip().splitlines()[-12:])
        raise MissingError(f"{Path(command[0]).name} {command[1]} ended with {done.returncode}:\n    {words}")


# All of them


def make_all(frameworks: Sequence[Framework]) -> int:
    """Make these, several at once, and return the exit code: 1 if one is missing that must be there."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        working = {pool.submit(make, framework): framework for framework in frameworks}
        errors = dict(_follow(working))
    for framework, error in errors.items():
        word = "SKIPPED" if _excused(framework, error) else "MISSING"
        _say(f"{word} {framework.name}: {error}")
    return int(any(not _excused(framework, error) for framework, error in errors.items()))


def _follow(working: dict[Future[str], Framework]) -> Iterator[tuple[Framework, Exception]]:
    """Say what gets ready and what is still being worked on; yield what fails."""
    began, left, ended = time.monotonic(), set(working), 0
    while left:
        done, left = wait(left, timeout=WORD_SECONDS, return_when=FIRST_COMPLETED)
        if not done:
            names = ", ".join(working[future].name for future in working if future.running())
            _say(f"{time.monotonic() - began:.0f} s: still installing {names}; {len(left)} of {len(working)} to go")
        for future in done:
            ended += 1
            error = future.exception()
            if isinstance(error, Exception):
                yield working[future], error
            else:
                _say(f"{working[future].name}: ready, {future.result()} ({ended} of {len(working)})")


def _excused(framework: Framework, error: Exception) -> bool:
    return framework.may_skip and isinstance(error, NoPythonError)


_saying = threading.Lock()


def _say(text: str) -> None:
    with _saying:
        print(f"frameworks: {text}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", action="store_true", help="only print where the interpreter is")
    parser.add_argument("--list", action="store_true", help="print name, Python, contents and size of each")
    parser.add_argument("--pythons", action="store_true", help="print name and oldest Python of each that has pins")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all, or any of: {', '.join(BY_NAME)}")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in BY_NAME and name != "all"]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are: all, {', '.join(BY_NAME)}")
    everything = not arguments.names or "all" in arguments.names
    chosen = FRAMEWORKS if everything else [BY_NAME[name] for name in arguments.names]
    if arguments.path:
        print(*[python(framework.name) for framework in chosen], sep="\n")
        return 0
    if arguments.list:
        print(*[f"{each.name:11} {each.python or 'ours':5} {each.cost:7} {each.holds}" for each in chosen], sep="\n")
        return 0
    if arguments.pythons:
        pinned = [each for each in chosen if each.recipe != SSHD]
        print(*[f"{each.name} {each.python or OLDEST_PYTHON}" for each in pinned], sep="\n")
        return 0
    return make_all(chosen)


if __name__ == "__main__":
    sys.exit(main())
