"""Counters, gauges and histograms, and the text in which Prometheus reads them. Knows nothing of what is measured.

Samples are kept per tuple of label values, in the order of the label names. Everything runs on one event loop, so there
are no locks. docs/design/005-metrics.md says why this is not a library.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

Values = tuple[str, ...]


class Counter:
    """A number that only grows."""

    kind = "counter"

    def __init__(self, name: str, doc: str, *labels: str) -> None:
        self.name, self.doc, self.labels = name, doc, labels
        self._counts: dict[Values, float] = {} if labels else {(): 0}

    def add(self, *values: str) -> None:
        """Count one more."""
        self._counts[values] = self._counts.get(values, 0) + 1

    def lines(self) -> Iterator[str]:
        """Yield one line for each sample."""
        for values, count in self._counts.items():
            yield _line(self.name, zip(self.labels, values, strict=True), count)


class Gauge:
    """A number that is asked for when somebody reads it."""

    kind = "gauge"

    def __init__(self, name: str, doc: str, *labels: str) -> None:
        self.name, self.doc, self.labels = name, doc, labels
        self.read: Callable[[], Mapping[Values, float]] = dict

    def lines(self) -> Iterator[str]:
        """Yield one line for each sample there is now."""
        for values, number in self.read().items():
            yield _line(self.name, zip(self.labels, values, strict=True), number)


class Histogram:
    """How often a number was at most so large, for several bounds."""

    kind = "histogram"

    def __init__(self, name: str, doc: str, *labels: str, bounds: tuple[float, ...] = SECONDS) -> None:
        self.name, self.doc, self.labels, self._bounds = name, doc, labels, bounds
        self._samples: dict[Values, _Sample] = {} if labels else {(): _Sample(len(bounds))}

    def observe(self, number: float, *values: str) -> None:
        """Note one number."""
        sample = self._samples.get(values)
        if sample is None:
            sample = self._samples[values] = _Sample(len(self._bounds))
        sample.counts[bisect_left(self._bounds, number)] += 1
        sample.total += number

    def lines(self) -> Iterator[str]:
        """Yield the buckets, the sum and the count of each sample."""
        for values, sample in self._samples.items():
            labels = list(zip(self.labels, values, strict=True))
            sums = list(accumulate(sample.counts))
            for bound, count in zip((*self._bounds, float("inf")), sums, strict=True):
                yield _line(f"{self.name}_bucket", [*labels, ("le", _number(bound))], count)
            yield _line(f"{self.name}_sum", labels, sample.total)
            yield _line(f"{self.name}_count", labels, sums[-1])


class _Sample:
    def __init__(self, bounds: int) -> None:
        self.counts = [0] * (bounds + 1)
        """For each bound how many numbers lie between it and the bound before; the last one has none."""
        self.total = 0.0


Family = Counter | Gauge | Histogram


def exposition(families: Iterable[Family]) -> str:
    """Return families as Prometheus reads them."""
    return "".join(f"{line}\n" for family in families for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    yield f"# HELP {family.name} {_escape(family.doc)}"
    yield f"# TYPE {family.name} {family.kind}"
    yield from family.lines()


def _line(name: str, labels: Iterable[tuple[str, str]], number: float) -> str:
    inside = ",".join(f'{label}="{_quoted(value)}"' for label, value in labels)
    return f"{name}{{{inside}}} {_number(number)}" if inside else f"{name} {_number(number)}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escape(text).replace('"', r"\"")


def _number(number: float) -> str:
    if number in (float("inf"), float("-inf")):
        return "+Inf" if number > 0 else "-Inf"
    return str(int(number)) if number == int(number) else repr(float(number))
