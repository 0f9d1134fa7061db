"""Manifest files for `run`, `render`, `explain` and `apply`: read, changed by --set, checked, and sorted.

Everything that is wrong is found before anything is done, and said in the words of `tw lint`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trainwright import admission
from trainwright.api import manifest
from trainwright.api.faces import RESOURCES, face_of
from trainwright.cli import lint, settings
from trainwright.cli.settings import Setting
from trainwright.core.errors import BadRequest, ManifestError, NotFound, Problem
from trainwright.core.objects import Object, at
from trainwright.core.resources import BUILT_IN, Resource, resource_of
from trainwright.kinds import KINDS, kind_of


@dataclass(frozen=True)
class Loaded:
    """What a file asks for, ready to be submitted."""

    file: str
    jobs: tuple[Object, ...]
    support: tuple[Object, ...]
    """What stands beside the jobs and is made before them: ConfigMaps, Secrets, Services."""
    warnings: tuple[str, ...]


def load(file: str, sets: Sequence[Setting] = (), namespace: str | None = None, *, lenient: bool = False) -> Loaded:
    """Return the objects of a file as they would be stored, or raise with everything that is wrong with it."""
    name = "<stdin>" if file == "-" else file
    documents = [_changed(document, sets) for document in manifest.parse(text_of(file, name))]
    rows = sorted(lint.rows_of(name, documents, lenient=lenient), key=lambda row: row.line)
    errors = [Problem("", str(row)) for row in rows if row.severity == "error"]
    if errors:
        raise ManifestError(errors)
    objects = [_placed(document, name, namespace) for document in documents if document.object is not None]
    jobs = tuple(admission.admit(obj, lenient=lenient).object for obj in objects if kind_of(obj))
    if not jobs:
        kinds = ", ".join(f"{kind.resource.api_version} {kind.name}" for kind in KINDS)
        raise ManifestError([Problem("", f"{name}: there is no job in this file (jobs are: {kinds})")])
    support = tuple(obj for obj in objects if not kind_of(obj) and _row(obj))
    return Loaded(name, jobs, support, tuple(str(row) for row in rows if row.severity == "warning"))


def objects(
    files: Sequence[str], sets: Sequence[Setting] = (), namespace: str | None = None, *, check: bool = True
) -> tuple[list[tuple[Resource, Object]], list[str]]:
    """Return everything in files and folders as its author wrote it, and warnings; raise with all that is wrong.

    An object that names no namespace, where -n names none either, is left without: the home knows the user's own.
    """
    found: list[tuple[Resource, Object]] = []
    rows: list[lint.Row] = []
    for file in _files(files):
        name = "<stdin>" if file == "-" else file
        documents = [_changed(document, sets) for document in manifest.parse(text_of(file, name))]
        if check:
            rows += sorted(lint.rows_of(name, documents, lenient=False), key=lambda row: row.line)
        for document in documents:
            if document.object is not None and (row := _applied_as(document.object)):
                placed = _placed(document, name, namespace, default="")
                found.append((row, {**placed, "apiVersion": row.api_version}))
    errors = [Problem("", str(row)) for row in rows if row.severity == "error"]
    if errors:
        raise ManifestError(errors)
    return found, [str(row) for row in rows if row.severity == "warning"]


def _applied_as(obj: Object) -> Resource | None:
    """Return the row under which an object is stored: a job written in another version has that of its kind."""
    if face := face_of(obj):
        return face.resource
    return next(
        (row for row in RESOURCES if (row.api_version, row.kind) == (obj.get("apiVersion"), obj.get("kind"))), None
    )


def _files(names: Sequence[str]) -> Iterator[str]:
    """Yield the files that are meant: of a folder all that look like manifests, in order."""
    for name in dict.fromkeys(names):
        if name == "-" or not Path(name).is_dir():
            yield name
            continue
        inside = sorted(str(path) for path in Path(name).iterdir() if path.suffix in (".yaml", ".yml", ".json"))
        if not inside:
            raise NotFound(f"{name}: there are no manifests in this folder (*.yaml, *.yml, *.json)")
        yield from inside


def text_of(file: str, name: str) -> str:
    """Return the text of a file, or raise with what is wrong with the file itself."""
    try:
        return lint.read_text(file)
    except FileNotFoundError as error:
        raise NotFound(f"{name}: {lint.unreadable(error)}") from error
    except UnicodeDecodeError as error:
        raise ManifestError([Problem("", f"{name}: this is not UTF-8; save the file as UTF-8")]) from error
    except OSError as error:
        raise ManifestError([Problem("", f"{name}: {lint.unreadable(error)}")]) from error


def _changed(document: manifest.Document, sets: Sequence[Setting]) -> manifest.Document:
    """Return a job's document as --set wants it; other objects are left alone."""
    if document.object is None or not sets or not kind_of(document.object):
        return document
    try:
        return replace(document, object=settings.apply(document.object, sets))
    except ValueError as error:
        raise BadRequest(f"--set {error}") from error


def _placed(document: manifest.Document, name: str, namespace: str | None, default: str = "default") -> Object:
    """Return an object with its namespace: its own, else -n, else the default. Two that differ are a mistake."""
    obj: Object = document.object or {}
    row = _applied_as(obj)
    if row is None or not row.namespaced:
        return obj
    own = at(obj, ("metadata", "namespace"))
    if own and namespace and own != namespace:
        line = document.line("metadata.namespace")
        words = f"this is {own!r}, but -n says {namespace!r}; leave one of them out"
        raise ManifestError([Problem("", f"{name}:{line}: metadata.namespace: {words}")])
    place = own or namespace or default
    return {**obj, "metadata": {**obj["metadata"], "namespace": place}} if place else obj


def _row(obj: Object) -> Resource | None:
    if kind := kind_of(obj):
        return kind.resource
    try:
        return resource_of(obj, BUILT_IN)
    except KeyError:
        return None
