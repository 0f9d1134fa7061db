"""What runs in the place of an image: images are not pulled, so `command` and `args` are all there is.

The command runs on this machine with the caller's PATH. A bare `python` is the caller's; where the caller's PATH has
none, it is the Python that runs us, because a machine that has only `python3`, or a virtual environment that
was not activated, should not fail a manifest that every image with Python would run. The `python` of our own image, in
which the operator's init containers run, is the one that runs us: we are what is in it.
"""

import shutil
import sys
from collections.abc import Mapping

from trainwright.core.objects import Object
from trainwright.node.environment import expand
from trainwright.node.refusals import Refused

_PYTHONS = ("python", "python3")
_OUR_IMAGE = "trainwright"


def command(container: Object, path: str, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words to run; `path` is where the container stands in the manifest, for the error."""
    words = container.get("command") or ()
    if not words:
        lacks = "args but no command" if container.get("args") else "no command"
        raise Refused(f"{path}: {lacks}; images are not run here, so write the command the image would run")
    return tuple(expand(str(word), variables) for word in [*words, *(container.get("args") or ())])


def found(words: tuple[str, ...], environment: Mapping[str, str], image: str = "") -> tuple[str, ...]:
    """Return the words with the program looked up where that needs more than PATH."""
    program = words[0]
    if program not in _PYTHONS:
        return words
    if _is_ours(image) or not shutil.which(program, path=environment.get("PATH", "")):
        return (sys.executable, *words[1:])
    return words


def _is_ours(image: str) -> bool:
    """Say whether an image is our own, whatever registry, tag and digest it is written with."""
    return image.rpartition("/")[2].partition("@")[0].partition(":")[0] == _OUR_IMAGE
