"""Makes an environment for each real framework, outside the checkout, so that fresh clones share it.

    python tools/frameworks.py torch          # make it if it is not there, say where it is
    python tools/frameworks.py --path torch   # only print its python

The place is $TRAINWRIGHT_FRAMEWORKS, else ~/.cache/trainwright/frameworks; the name carries a digest of the
pinned requirements, so a changed pin makes a new environment and an old one is never half updated.
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIZES = {"torch": "torch 2.13.0 and what it needs: about 4.5 GB on disk, 20 s to a few minutes to install"}


def place() -> Path:
    """Return the folder that holds the environments."""
    given = os.environ.get("TRAINWRIGHT_FRAMEWORKS")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given else cache / "trainwright" / "frameworks"


def environment(name: str) -> Path:
    """Return the folder of one framework's environment, made or not."""
    pins = (ROOT / "requirements" / f"{name}.txt").read_bytes()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return place() / f"{name}-py{version}-{hashlib.sha256(pins).hexdigest()[:12]}"


def python(name: str) -> Path:
    """Return the interpreter of one framework's environment, made or not."""
    return environment(name) / "bin" / "python"


def make(name: str) -> None:
    """Install one framework unless it is there; two that try at once wait for each other."""
    target = environment(name)
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (target / ".ready").exists():
            return
        print(f"frameworks: installing {SIZES.get(name, name)}\nframeworks: into {target}", flush=True)
        shutil.rmtree(target, ignore_errors=True)
        uv = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(target)], check=True)
        pins = str(ROOT / "requirements" / f"{name}.txt")
        subprocess.run(
            # Compiled now, because PYTHONDONTWRITEBYTECODE may be set later: importing torch then takes twice as long.
            [uv, "pip", "install", "--compile-bytecode", "--python", str(python(name)), "--require-hashes", "-r", pins],
            check=True,
        )
        (target / ".ready").touch()
        print(f"frameworks: {name} is ready", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", action="store_true", help="only print the interpreter's path")
    parser.add_argument("name", choices=sorted(SIZES))
    arguments = parser.parse_args()
    if not arguments.path:
        make(arguments.name)
    else:
        print(python(arguments.name))


if __name__ == "__main__":
    main()
