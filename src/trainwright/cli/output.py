"""Objects as JSON or YAML, the way kubectl writes them."""

from collections.abc import Iterable, Sequence
from typing import Any

from trainwright.core.objects import Object


def dump(value: Any, form: str) -> str:
    """Return an object as one text."""
    if form == "json":
        import msgspec

        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"
    import yaml

    # Objects share parts in memory, which is nobody's concern: no anchors.
    plain = {"ignore_aliases": lambda dumper, data: True}  # noqa: ARG005
    dumper: Any = type("PlainDumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), plain)
    dumper.add_representer(str, _text)
    text: str = yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True, width=120)
    return text


def _text(dumper: Any, value: str) -> Any:
    """Write text of several lines as a block, so that a script in a ConfigMap reads as a script."""
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def stream(objects: Iterable[Object], form: str) -> str:
    """Return several objects as one stream: YAML documents, or a JSON list that kubectl takes."""
    if form == "json":
        return dump(as_list(list(objects)), "json")
    return "---\n".join(dump(obj, "yaml") for obj in objects)


def as_list(objects: Sequence[Object]) -> Object:
    """Return objects as the API's List."""
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}
