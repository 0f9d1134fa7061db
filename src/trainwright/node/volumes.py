"""Volumes: the folders and files behind `spec.volumes`, and where each container sees them.

configMap, secret, downwardAPI and projected volumes are written the way the kubelet writes them: a hidden folder, a
link `..data` to it that is swapped in one step, and a link per file, so that a change is seen whole or not at all.
emptyDir is a folder of the pod's, hostPath is the host's own, and a persistentVolumeClaim is a folder kept by claim
name. Everything else is refused by name. An emptyDir of medium Memory at /dev/shm, the usual way to ask for more shared
memory, is the pod's own /dev/shm, which is in memory already and as large as the machine allows; elsewhere it is a
folder like any other.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from trainwright.core.objects import Object
from trainwright.node.base import Mount, User
from trainwright.node.environment import expand
from trainwright.node.refusals import Missing, Refused
from trainwright.node.sources import Facts, Found, Reference, SourceKind, all_entries, field, resource_field
from trainwright.node.tokens import Wish

Payload = Mapping[str, tuple[bytes, int]]
"""Relative path to contents and mode."""
Issued = Mapping[Wish, str]
"""The tokens there are; a wish that is not in it is left out."""
NO_TOKENS: Issued = {}

_DEFAULT_MODE = 0o644
_OWNER_ONLY, _ANYBODY = 0o700, 0o777
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where every pod has its own
_WRITTEN = ("configMap", "secret", "downwardAPI", "projected")
_FOLDERS = ("emptyDir", "hostPath", "persistentVolumeClaim")
_TOKEN = "serviceAccountToken"  # noqa: S105 - the name of a source
_KIND_OF: Mapping[str, SourceKind] = {"configMap": "ConfigMap", "secret": "Secret"}


@dataclass(frozen=True)
class Folders:
    """Where volumes live on this machine."""

    pod: Path
    """The pod's own folder, removed with the pod."""
    claims: Path
    """The namespace's persistent volume claims, kept."""


def references(pod: Object) -> Iterator[Reference]:
    """Yield the ConfigMaps and Secrets a pod's volumes are made from."""
    for volume in pod["spec"].get("volumes") or ():
        for source in _projections(volume):
            for key, kind in _KIND_OF.items():
                if key in source:
                    yield kind, _object_name(source[key])


_UNASKED = "kube-api-access-"


def left_out(pod: Object) -> Iterator[str]:
    """Yield what a pod's volumes will lack, in words; not of the volume that an API server gives every pod unasked."""
    for volume in pod["spec"].get("volumes") or ():
        if volume["name"].startswith(_UNASKED):
            continue
        for source in _projections(volume):
            if _TOKEN in source:
                path = source[_TOKEN].get("path", "token")
                yield f"volume {volume['name']!r} has no file {path!r}: no service account token is issued here"


def wishes(pod: Object) -> Iterator[Wish]:
    """Yield the tokens a pod's volumes ask for."""
    for volume in pod["spec"].get("volumes") or ():
        for source in _projections(volume):
            if _TOKEN in source:
                yield Wish.read(source[_TOKEN])


def payload(volume: Object, facts: Facts, found: Found, tokens: Issued = NO_TOKENS) -> Payload | None:
    """Return the files of a volume that we write; None for a volume that is a folder."""
    if not any(kind in volume for kind in _WRITTEN):
        return None
    mode = _default_mode(volume)
    files: dict[str, tuple[bytes, int]] = {}
    for source in _projections(volume):
        files.update(_projected(source, mode, facts, found, tokens))
    for path in files:
        _check_relative(path, f"volume {volume['name']!r}")
    return files


class Volumes:
    """The volumes of one pod. Knows what it has written, so that writing again costs nothing when nothing changed."""

    def __init__(self, folders: Folders, user: User | None = None) -> None:
        """Know where they are kept, and whose they are if not our own."""
        self._folders = folders
        self._user = user
        self._written: dict[str, Payload] = {}

    def prepare(self, pod: Object, facts: Facts, found: Found, tokens: Issued = NO_TOKENS) -> dict[str, Path]:
        """Make or refresh every volume and return where it is; Missing if one cannot be made yet."""
        return {
            volume["name"]: self._one(volume, f"spec.volumes[{index}]", facts, found, tokens)
            for index, volume in enumerate(pod["spec"].get("volumes") or ())
        }

    def remove(self) -> None:
        """Remove what was the pod's own."""
        shutil.rmtree(self._folders.pod, ignore_errors=True)

    def _one(self, volume: Object, path: str, facts: Facts, found: Found, tokens: Issued) -> Path:
        name = str(volume["name"])
        files = payload(volume, facts, found, tokens)
        if files is not None:
            folder = self._folders.pod / "volumes" / name
            if self._written.get(name) != files:
                write(folder, files, self._user)
                self._written[name] = files
            return folder
        if "hostPath" in volume:
            if self._user:
                raise Refused(
                    f"{path} ({name}): hostPath volumes are only for jobs of the server's own user; leave it out: "
                    "commands find the machine's folders at their own paths, with the rights of the user they run as"
                )
            return _host_path(volume)
        if "persistentVolumeClaim" in volume:
            claim = volume["persistentVolumeClaim"].get("claimName", "")
            _check_relative(claim, f"{path}.persistentVolumeClaim.claimName")
            return _folder(self._folders.claims / claim, 0o755, self._user)
        if "emptyDir" in volume:
            return _folder(self._folders.pod / "volumes" / name, 0o777)
        kinds = ", ".join(key for key in volume if key != "name") or "no kind"
        known = ", ".join([*_FOLDERS, *_WRITTEN])
        raise Refused(f"{path} ({name}): {kinds} volumes are not mounted here (there are: {known})")


def mounts(
    container: Object, path: str, pod: Object, sources: Mapping[str, Path], variables: Mapping[str, str]
) -> tuple[Mount, ...]:
    """Return what a container sees where, outer folders first so that inner ones are not hidden by them."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    made = []
    for index, each in enumerate(container.get("volumeMounts") or ()):
        here = f"{path}.volumeMounts[{index}]"
        if each["name"] not in sources:
            known = ", ".join(sources) or "none"
            raise Refused(f"{here}: there is no volume {each['name']!r} (there are: {known})")
        made.append(_mount(each, here, volumes[each["name"]], sources[each["name"]], variables))
        if _is_shared_memory(volumes[each["name"]], made[-1].target):
            made.pop()
    made.sort(key=lambda mount: len(PurePosixPath(mount.target).parts))
    return tuple(mount for mount in made if mount.read_only or str(mount.source) != mount.target)


def _is_shared_memory(volume: Object, target: str) -> bool:
    return target == _SHARED_MEMORY and (volume.get("emptyDir") or {}).get("medium") == "Memory"


def write(folder: Path, files: Payload, user: User | None = None) -> None:
    """Make `folder` hold exactly `files`, in one step for whoever looks."""
    folder.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix="..", dir=folder))
    fresh.chmod(0o755)
    try:
        for name, (data, mode) in files.items():
            file = fresh / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            file.chmod(mode)
            if user:
                os.chown(file, user.uid, user.gid)
        link = folder / "..data"
        old = link.readlink() if link.is_symlink() else None
        draft = folder / "..data_tmp"
        draft.unlink(missing_ok=True)
        draft.symlink_to(fresh.name)
        draft.replace(link)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    wanted = {PurePosixPath(name).parts[0] for name in files}
    present = {entry.name for entry in folder.iterdir() if not entry.name.startswith("..")}
    for name in wanted - present:
        (folder / name).symlink_to(f"..data/{name}")
    for name in present - wanted:
        (folder / name).unlink()
    if old is not None:
        shutil.rmtree(folder / old, ignore_errors=True)


def _projections(volume: Object) -> list[Object]:
    if "projected" in volume:
        return list(volume["projected"].get("sources") or ())
    return [{kind: volume[kind] or {}} for kind in _WRITTEN if kind in volume]


def _projected(source: Object, mode: int, facts: Facts, found: Found, tokens: Issued) -> Payload:
    for key, kind in _KIND_OF.items():
        if key in source:
            return _from_object(kind, source[key], mode, found)
    if "downwardAPI" in source:
        items = source["downwardAPI"].get("items") or ()
        return {item["path"]: (_downward(item, facts), item.get("mode", mode)) for item in items}
    if _TOKEN in source:
        token = tokens.get(Wish.read(source[_TOKEN]))
        path = source[_TOKEN].get("path", "token")
        return {} if token is None else {path: (token.encode(), mode & _OWNER_ONLY)}
    raise Refused(f"projected volume source {', '.join(source)} is not known here (there are: {', '.join(_WRITTEN)})")


def _from_object(kind: SourceKind, source: Mapping[str, Any], mode: int, found: Found) -> Payload:
    name, optional = _object_name(source), bool(source.get("optional"))
    data = all_entries(kind, name, found, optional=optional)
    items = source.get("items")
    # Whoever runs in the pod owns these files here: nobody else need read a secret, and ssh refuses a key others may.
    allowed = _OWNER_ONLY if kind == "Secret" else _ANYBODY
    if not items:
        return {key: (value, mode & allowed) for key, value in data.items()}
    files = {}
    for item in items:
        if item["key"] in data:
            files[item["path"]] = (data[item["key"]], item.get("mode", mode) & allowed)
        elif not optional:
            raise Missing(
                f"{kind} {name!r} has no key {item['key']!r} (there are: {', '.join(sorted(data)) or 'none'})"
            )
    return files


def _downward(item: Mapping[str, Any], facts: Facts) -> bytes:
    if "fieldRef" in item:
        return field(item["fieldRef"].get("fieldPath", ""), facts).encode()
    return resource_field(item.get("resourceFieldRef") or {}, {}, facts).encode()


def _object_name(source: Mapping[str, Any]) -> str:
    """A secret volume says secretName; everything else says name."""
    return str(source.get("secretName") or source.get("name") or "")


def _default_mode(volume: Object) -> int:
    for kind in _WRITTEN:
        if kind in volume:
            mode = (volume[kind] or {}).get("defaultMode")
            return _DEFAULT_MODE if mode is None else int(mode)
    return _DEFAULT_MODE


def _check_relative(path: str, where: str) -> None:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts:
        raise Refused(f"{where}: {path!r} leads out of the volume; write a relative path without '..'")


def _folder(path: Path, mode: int, user: User | None = None) -> Path:
    if not path.exists():
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(mode)
        if user:
            os.chown(path, user.uid, user.gid)
    return path


_CHECKS: Mapping[str, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "FileOrCreate": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}


def _host_path(volume: Object) -> Path:
    path, kind = Path(volume["hostPath"].get("path", "")), volume["hostPath"].get("type") or ""
    if kind and kind not in _CHECKS:
        known = ", ".join(_CHECKS)
        raise Refused(f"volume {volume['name']!r}: unknown hostPath type {kind!r} (there are: {known})")
    if not path.is_absolute():
        raise Refused(f"volume {volume['name']!r}: hostPath {str(path)!r} is not absolute; write it from / on")
    if kind == "DirectoryOrCreate" and not path.exists():
        path.mkdir(parents=True, mode=0o755)
    if kind == "FileOrCreate" and not path.exists():
        path.touch(mode=0o644)
    if not path.exists():
        raise Missing(f"volume {volume['name']!r}: hostPath {path} does not exist")
    if kind and not _CHECKS[kind][0](path.stat().st_mode):
        raise Missing(f"volume {volume['name']!r}: hostPath {path} is not {_CHECKS[kind][1]}")
    return path


def _mount(each: Object, here: str, volume: Object, source: Path, variables: Mapping[str, str]) -> Mount:
    target = str(each.get("mountPath", ""))
    if not target.startswith("/"):
        raise Refused(f"{here}.mountPath: {target!r} is not absolute; write it from / on")
    sub = each.get("subPath") or expand(each.get("subPathExpr") or "", variables)
    if sub:
        source = _sub_path(source, sub, here, create=not any(kind in volume for kind in _WRITTEN))
    read_only = bool(each.get("readOnly")) or any(kind in volume for kind in _WRITTEN)
    claim = volume.get("persistentVolumeClaim") or {}
    unasked = volume["name"].startswith(_UNASKED)  # so nobody misses it where nothing can be mounted
    return Mount(source, os.path.normpath(target), read_only or bool(claim.get("readOnly")), optional=unasked)


def _sub_path(source: Path, sub: str, here: str, *, create: bool) -> Path:
    _check_relative(sub, f"{here}.subPath")
    root = source.resolve()
    target = (root / sub).resolve()
    if not target.is_relative_to(root):
        raise Refused(f"{here}.subPath: {sub!r} leads out of the volume")
    if not target.exists():
        if not create:
            raise Missing(f"{here}.subPath: there is no {sub!r} in the volume")
        target.mkdir(parents=True)
    return target
