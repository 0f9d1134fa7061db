"""Runs as a picture: one panel per policy with utilisation, other load and the elastic pods of every job stacked.

Plain SVG, made by hand: it needs no library, stays sharp, and shows the same in a page, a browser and the docs.
"""

from collections.abc import Iterator, Sequence
from html import escape

from trainwright.simulate.meters import Steps, columns
from trainwright.simulate.result import JobResult, Result

MOST_BANDS = 60
"""With more jobs than this there is one band per group."""
_COLUMNS = 240
_LEFT, _WIDTH, _RIGHT = 62, 720, 18
_STRIP, _LOAD, _STACK, _GAP, _HEAD, _FOOT = 60, 60, 190, 14, 44, 34
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.title{font-weight:600;font-size:14px}"
    ".small{font-size:11px;fill:#666}"
    ".frame{fill:#fafafa;stroke:#ddd}.line{fill:none;stroke:#1f5fa8;stroke-width:1.5}.used{fill:#1f5fa8;opacity:.15}"
    ".wanted{fill:#d9480f;opacity:.55}.served{fill:#868e96;opacity:.8}.band{stroke:#fff;stroke-width:.3}"
)


def svg(title: str, results: Sequence[Result]) -> str:
    """Return a picture of runs of one scenario, one panel below the other."""
    heights = [_panel_height(result) for result in results]
    total_width, total_height = _LEFT + _WIDTH + _RIGHT, sum(heights) + 30
    tallest = max((max(_total(result), default=0.0) for result in results), default=0.0) or 1.0
    parts = [f'<text class="title" x="{_LEFT}" y="20">{escape(title)}</text>']
    top = 30
    for result, height in zip(results, heights, strict=True):
        parts += _panel(result, top, tallest)
        top += height
    size = f'width="{total_width}" height="{total_height}" viewBox="0 0 {total_width} {total_height}"'
    body = "\n".join(parts)
    background = f'<rect width="{total_width}" height="{total_height}" fill="#fff"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><style>{_STYLE}</style>'
    return f"{head}\n{background}\n{body}\n</svg>\n"


def html(title: str, rows: Sequence[Sequence[str]], results: Sequence[Result]) -> str:
    """Return a page with the table of figures, whose first row is its head, and the picture."""
    head, *rest = [[escape(cell) for cell in row] for row in rows]
    table = ["<tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr>"]
    table += ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rest]
    style = (
        "body{font:14px system-ui,sans-serif;margin:2rem;color:#222}table{border-collapse:collapse;margin-bottom:2rem}"
        "td,th{padding:.25rem .8rem;border-bottom:1px solid #ddd;text-align:right}"
        "td:first-child,th:first-child{text-align:left}"
    )
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{style}</style>\n'
        f"<h1>{escape(title)}</h1>\n<table>\n" + "\n".join(table) + f"\n</table>\n{svg(title, results)}</html>\n"
    )


def _panel_height(result: Result) -> int:
    return _HEAD + _STRIP + (_GAP + _LOAD) * len(result.loads) + _GAP + _STACK + _FOOT


def _panel(result: Result, top: int, tallest: float) -> Iterator[str]:
    """Yield one policy: its name, a strip for utilisation, one for each other load, and the stack of jobs."""
    figures = result.figures
    steady = f"steady utilisation {figures.utilisation_steady:.1%}, {figures.resizes:.0f} resizes"
    yield f'<text class="title" x="{_LEFT}" y="{top + 24}">{escape(result.policy)}</text>'
    yield f'<text class="small" x="{_LEFT + _WIDTH}" y="{top + 24}" text-anchor="end">{steady}</text>'
    at = top + _HEAD - 10
    yield from _frame(at, _STRIP, "100 %", "used")
    shares = columns(result.utilisation, result.until, _COLUMNS)
    yield _area(shares, [0.0] * _COLUMNS, at, _STRIP, 1.0, 'class="used"')
    yield _line(shares, at, _STRIP, 1.0)
    at += _STRIP + _GAP
    for load in result.loads:
        yield from _load(load.name, load.wanted, load.running, result.until, at)
        at += _LOAD + _GAP
    yield from _frame(at, _STACK, f"{tallest:.0f}", "pods")
    yield from _stack(result, at, tallest)
    yield from _times(result.until, at + _STACK)


def _load(name: str, wanted: Steps, running: Steps, until: float, at: int) -> Iterator[str]:
    """Yield a strip of other load: what was wanted and did not run stands out."""
    most = max(value for _, value in wanted) or 1.0
    yield from _frame(at, _LOAD, f"{most:.0f}", name)
    ran, asked = columns(running, until, _COLUMNS), columns(wanted, until, _COLUMNS)
    nothing = [0.0] * _COLUMNS
    yield _area(list(map(max, ran, asked)), ran, at, _LOAD, most, 'class="wanted"')
    yield _area(list(map(min, ran, asked)), nothing, at, _LOAD, most, 'class="served"')


def _stack(result: Result, at: int, tallest: float) -> Iterator[str]:
    below = [0.0] * _COLUMNS
    for index, (name, values) in enumerate(_bands(result)):
        above = [low + value for low, value in zip(below, values, strict=True)]
        hue = index * 137.5 % 360  # the golden angle: neighbours differ
        yield _area(above, below, at, _STACK, tallest, f'class="band" fill="hsl({hue:.0f} 55% 62%)"', name)
        below = above


def _bands(result: Result) -> list[tuple[str, list[float]]]:
    if len(result.jobs) <= MOST_BANDS:
        return [(job.name, columns(job.running, result.until, _COLUMNS)) for job in result.jobs]
    groups: dict[str, list[JobResult]] = {}
    for job in result.jobs:
        groups.setdefault(job.group, []).append(job)
    return [(name, _sum(jobs, result.until)) for name, jobs in groups.items()]


def _sum(jobs: Sequence[JobResult], until: float) -> list[float]:
    return [sum(values) for values in zip(*(columns(job.running, until, _COLUMNS) for job in jobs), strict=True)]


def _total(result: Result) -> list[float]:
    return _sum(result.jobs, result.until)


def _frame(top: int, height: int, most: str, what: str) -> Iterator[str]:
    yield f'<rect class="frame" x="{_LEFT}" y="{top}" width="{_WIDTH}" height="{height}"/>'
    yield f'<text class="small" x="{_LEFT - 6}" y="{top + 10}" text-anchor="end">{most}</text>'
    yield f'<text class="small" x="{_LEFT - 6}" y="{top + height // 2 + 8}" text-anchor="end">{escape(what[:9])}</text>'


def _times(until: float, bottom: int) -> Iterator[str]:
    for part in range(6):
        x = _LEFT + _WIDTH * part / 5
        anchor = {0: "start", 5: "end"}.get(part, "middle")
        place = f'x="{x:.0f}" y="{bottom + 15}" text-anchor="{anchor}"'
        yield f'<text class="small" {place}>{_time(until * part / 5)}</text>'


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.4g} h" if seconds >= 7200 else f"{seconds:.4g} s"


def _area(
    above: Sequence[float], below: Sequence[float], top: int, height: int, most: float, look: str, name: str = ""
) -> str:
    """Return the area between two rows of values; what is empty on the left and right is left out."""
    filled = [place for place in range(_COLUMNS) if above[place] > below[place]]
    if not filled:
        return ""
    inside = range(filled[0], filled[-1] + 1)
    points = [_point(edge, above[place], top, height, most) for place in inside for edge in (place, place + 1)]
    points += [
        _point(edge, below[place], top, height, most) for place in reversed(inside) for edge in (place + 1, place)
    ]
    label = f"<title>{escape(name)}</title>" if name else ""
    return f'<polygon {look} points="{" ".join(_short(points))}">{label}</polygon>'


def _line(values: Sequence[float], top: int, height: int, most: float) -> str:
    points = [
        _point(edge, value, top, height, most) for place, value in enumerate(values) for edge in (place, place + 1)
    ]
    return f'<polyline class="line" points="{" ".join(_short(points))}"/>'


def _point(edge: int, value: float, top: int, height: int, most: float) -> tuple[str, str]:
    x = _LEFT + _WIDTH * edge / _COLUMNS
    return f"{x:.0f}", f"{top + height - height * min(value / most, 1.0):.1f}"


def _short(points: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield points as SVG wants them, without those in the middle of a level stretch."""
    for place, (x, y) in enumerate(points):
        if 0 < place < len(points) - 1 and points[place - 1][1] == y == points[place + 1][1]:
            continue
        yield f"{x},{y}"
