"""Logs: a constant sentence plus fields, as text for people or as JSON for machines.

    log = logger(__name__).bind(job="default/mnist")
    log.info("pod created", pod="mnist-worker-0")

Everything goes through the standard library's logging, so a program that embeds us keeps its own handlers.
"""

import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

import msgspec

ROOT = "trainwright"
_FIELDS = "trainwright_fields"


class Log:
    """A logger with fields that stand on every line."""

    def __init__(self, name: str, fields: Mapping[str, Any] | None = None) -> None:
        self._logger = logging.getLogger(name)
        self._fields = dict(fields or {})

    def bind(self, **fields: Any) -> "Log":
        """Return a log that adds these fields to every line."""
        return Log(self._logger.name, {**self._fields, **fields})

    def debug(self, sentence: str, **fields: Any) -> None:
        """Say what only somebody looking for a fault wants to read."""
        self._say(logging.DEBUG, sentence, fields)

    def info(self, sentence: str, **fields: Any) -> None:
        """Say what an operator of the system wants to read tomorrow."""
        self._say(logging.INFO, sentence, fields)

    def warning(self, sentence: str, **fields: Any) -> None:
        """Say what went wrong and is tried again."""
        self._say(logging.WARNING, sentence, fields)

    def error(self, sentence: str, *, trace: BaseException | None = None, **fields: Any) -> None:
        """Say what went wrong and should not have; with `trace`, where."""
        self._say(logging.ERROR, sentence, fields, trace)

    def _say(self, level: int, sentence: str, fields: Mapping[str, Any], trace: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, sentence, extra={_FIELDS: {**self._fields, **fields}}, exc_info=trace)


def logger(name: str) -> Log:
    """Return the log of a module."""
    return Log(name)


class TextFormatter(logging.Formatter):
    """One line a person can read: time, level, sentence, fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line, and the trace of an exception below it."""
        time = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        fields = "".join(f" {name}={_shown(value)}" for name, value in _fields(record).items())
        line = f"{time} {record.levelname:<7} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as JSON."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


def setup(format: Literal["text", "json"] = "text", level: str = "INFO", stream: TextIO | None = None) -> None:  # noqa: A002
    """Send our logs to `stream` (stderr), in one of the two formats; calling it again replaces what was set up."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger(ROOT)
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    fields = getattr(record, _FIELDS, {})
    return fields if isinstance(fields, Mapping) else {}


def _shown(value: Any) -> str:
    text = str(value)
    return f'"{text}"' if not text or " " in text else text
