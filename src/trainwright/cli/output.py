"""Objects as JSON or YAML, the way kubectl writes them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from trainwright.core.objects import Object


def dump(value: Any, form: str) -> str:
    """Return an object as one text."""
    if form == "json":
        import msgspec

        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"
    from trainwright.cli import yaml_text

    return yaml_text.Writer().document(value)


def documents(objects: Iterable[Object]) -> Iterator[str]:
    """Yield the YAML documents of a stream one by one, so that the whole text is never in memory."""
    from trainwright.cli import yaml_text

    return yaml_text.documents(objects)


def stream(objects: Iterable[Object], form: str) -> str:
    """Return several objects as one stream: YAML documents, or a JSON list that kubectl takes."""
    if form == "json":
        return dump(as_list(list(objects)), "json")
    return "".join(documents(objects))


def as_list(objects: Sequence[Object]) -> Object:
    """Return objects as the API's List."""
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}
