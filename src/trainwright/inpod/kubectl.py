"""What stands for kubectl in pods of the local home: `exec` and `get pod`, with kubectl's own arguments.

    kubectl exec [-i] POD [-c CONTAINER] [-n NAMESPACE] -- COMMAND...
    kubectl get pod POD [-n NAMESPACE] -o jsonpath={.status.phase}

It asks the node over a socket that only processes of this pod can reach, which is how the node knows who asks. What may
be asked is what the Roles of the pod's service account allow. Input, output and errors are handed to the node as they
are: the command writes to them itself. When this process ends, so does the command. Standard library only.
"""

import json
import os
import socket
import sys
from collections.abc import Sequence

ADDRESS = "\0trainwright/node"
"""Of the socket: without a file, and within the pod's own network."""
FAILED = 1


class WrongCallError(Exception):
    """Arguments that are not understood, in words."""


def read(words: Sequence[str]) -> dict[str, object]:
    """Return what a command line asks for."""
    verb, *rest = words or [""]
    if verb not in ("exec", "get"):
        raise WrongCallError(f"unknown command {verb!r}; this stand-in for kubectl knows exec and get pod")
    end = rest.index("--") if "--" in rest else len(rest)
    options, names = _options(rest[:end])
    if verb == "get" and names[:1] in (["pod"], ["pods"]):
        names = names[1:]
    if len(names) != 1:
        raise WrongCallError(f"expected one pod, found {' '.join(names) or 'none'}")
    asked: dict[str, object] = {"verb": verb, "pod": names[0].removeprefix("pod/"), "namespace": options.get("-n", "")}
    if verb == "get":
        return asked | {"path": _path(options.get("-o", ""))}
    if not rest[end + 1 :]:
        raise WrongCallError("there is no command; write it after --")
    return asked | {"container": options.get("-c", ""), "command": list(rest[end + 1 :]), "stdin": "-i" in options}


def _options(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    spelt = {"--stdin": "-i", "--container": "-c", "--namespace": "-n", "--output": "-o"}
    options: dict[str, str] = {}
    names: list[str] = []
    left = list(words)
    while left:
        word, sign, value = left.pop(0).partition("=")
        name = spelt.get(word, word)
        if not name.startswith("-"):
            names.append(word)
        elif name == "-i":
            options[name] = ""
        elif name in ("-c", "-n", "-o"):
            if not sign and not left:
                raise WrongCallError(f"{word} needs a value")
            options[name] = value if sign else left.pop(0)
        else:
            raise WrongCallError(f"unknown option {word!r} (there are: -i, -c, -n, -o)")
    return options, names


def _path(output: str) -> list[str]:
    """Return the keys of ``jsonpath={.status.phase}``."""
    if not output.startswith("jsonpath={.") or not output.endswith("}"):
        raise WrongCallError(f"-o: expected jsonpath={{.field.field}}, found {output or 'nothing'}")
    return output.removeprefix("jsonpath={.").removesuffix("}").split(".")


def ask(asked: dict[str, object], address: str = ADDRESS) -> dict[str, object]:
    """Tell the node what is wanted and return its answer; that of an exec comes when the command has ended."""
    with socket.socket(socket.AF_UNIX) as node:
        try:
            node.connect(address)
        except OSError as error:
            return {"error": f"the node does not answer ({error.strerror}); only pods with a service account may ask"}
        files = [0, 1, 2] if asked["verb"] == "exec" else []
        request = json.dumps(asked | {"fds": len(files)}).encode() + b"\n"
        sent = socket.send_fds(node, [request], files)
        if sent < len(request):
            node.sendall(request[sent:])
        answer = b"".join(iter(lambda: node.recv(1 << 16), b""))
    return json.loads(answer) if answer else {"error": "the node has gone"}


def delivery() -> tuple[str, ...]:
    """Return the command of the step that brings this stand-in: a shell, which starts faster than a Python would."""
    write = """printf "#!/bin/sh\\nexec '%s' -I -S '%s' \\"\\$@\\"\\n" "$0" "$1" >"$TARGET_DIR/kubectl" """
    here = os.path.abspath(__file__)  # noqa: PTH100 - importing pathlib would cost every exec more than its work
    return ("sh", "-c", f'{write}&& chmod 755 "$TARGET_DIR/kubectl"', sys.executable, here)


def main(words: Sequence[str]) -> int:
    """Do what the command line says; the exit code is the command's own, or 1 with a sentence."""
    try:
        answer = ask(read(words))
    except WrongCallError as error:
        answer = {"error": str(error)}
    if "error" in answer:
        print(f"error: {answer['error']}", file=sys.stderr)
        return FAILED
    if "value" in answer:
        sys.stdout.write(str(answer["value"]))
        return 0
    return int(str(answer["code"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
