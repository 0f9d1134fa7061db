"""A manifest file for `run`, `render` and `explain`: read, changed by --set, admitted, sorted into jobs and the rest.

Everything that is wrong is found before anything is done, and said in the words of `tw lint`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainwright import admission
from trainwright.api import manifest
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


def _placed(document: manifest.Document, name: str, namespace: str | None) -> Object:
    """Return an object with its namespace: its own, else -n, else default. Two that differ are a mistake."""
    obj: Object = document.object or {}
    row = _row(obj)
    if row is None or not row.namespaced:
        return obj
    own = at(obj, ("metadata", "namespace"))
    if own and namespace and own != namespace:
        line = document.line("metadata.namespace")
        words = f"this is {own!r}, but -n says {namespace!r}; leave one of them out"
        raise ManifestError([Problem("", f"{name}:{line}: metadata.namespace: {words}")])
    return {**obj, "metadata": {**obj["metadata"], "namespace": own or namespace or "default"}}


def _row(obj: Object) -> Resource | None:
    if kind := kind_of(obj):
        return kind.resource
    try:
        return resource_of(obj, BUILT_IN)
    except KeyError:
        return None
