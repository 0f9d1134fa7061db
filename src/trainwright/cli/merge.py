"""The logs of all ranks as one stream of whole lines, each with its rank in front.

Containers write straight into files, so the files are the buffer: nothing here grows with what a rank prints. One
thread looks for new files, reads them in turn in large chunks and writes to the sink, which may block (a pager, a slow
pipe); the ranks never notice. A line is printed once its end is there, or once its container has ended.
"""

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trainwright.node.log_times import prefixed
from trainwright.node.logs import log_path, pod_folder, runs

CHUNK = 1 << 18
POLL_SECONDS = 0.03
WIDEST = 24
"""So wide the column of prefixes may become on a terminal; longer ones stick out."""
COLOURS = ("36", "33", "32", "35", "34", "96", "93", "92", "95", "94")

Sink = Callable[[bytes], None]


@dataclass(frozen=True, order=True)
class Source:
    """One incarnation of one container, as its place among the logs says."""

    namespace: str
    pod: str
    uid: str
    container: str
    restart: int

    def path(self, root: Path) -> Path:
        """Return its log file in the folder of a run."""
        return log_path(pod_folder(root, self.namespace, self.pod, self.uid), self.container, self.restart)


Label = Callable[[Source], str | None]
"""Names a source as the reader knows it ("worker-1"); nothing: leave it out; None: not known yet, ask again."""


def sources(root: Path) -> Iterator[Source]:
    """Yield every log file of a run, the incarnations of a container in order."""
    for namespace in _folders(root / "logs"):
        for entry in _folders(root / "logs" / namespace):
            pod, _, uid = entry.rpartition("_")
            folder = pod_folder(root, namespace, pod, uid)
            for container in _folders(folder):
                yield from (Source(namespace, pod, uid, container, restart) for restart in runs(folder, container))


def _folders(path: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(path) if entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []


class Prefixes:
    """What stands in front of a line; on a terminal aligned, and a colour per rank."""

    def __init__(self, *, terminal: bool, colour: bool) -> None:
        self._terminal = terminal
        self._colour = colour
        self._order: dict[str, int] = {}
        self._width = 0

    def of(self, label: str) -> bytes:
        """Return the prefix for a rank's lines."""
        place = self._order.setdefault(label, len(self._order))
        self._width = min(max(self._width, len(label)), WIDEST)
        text = f"{label.ljust(self._width)} |" if self._terminal else f"{label} |"
        if self._colour:
            text = f"\x1b[{COLOURS[place % len(COLOURS)]}m{text}\x1b[0m"
        return f"{text} ".encode()


class _Reader:
    """Reads one file as whole lines. What is not printed yet stays in the file; only offsets are kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._printed = 0
        self._scanned = 0

    def more(self, *, ended: bool) -> Iterator[bytes]:
        """Yield whole lines in pieces: about a chunk, more only when a single line is longer than that."""
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            yield from self._pieces(file, os.fstat(file).st_size, ended=ended)
        finally:
            os.close(file)

    def _pieces(self, file: int, size: int, *, ended: bool) -> Iterator[bytes]:
        end = self._line_end(file, size)
        if not end and not (ended and self._printed < size):
            return
        until = end or size
        while self._printed < until and (piece := os.pread(file, min(CHUNK, until - self._printed), self._printed)):
            self._printed += len(piece)
            yield piece
        self._scanned = max(self._scanned, self._printed)
        if not end:
            yield b"\n"

    def _line_end(self, file: int, size: int) -> int:
        """Return where the last line of the next chunk with a line end stops; 0 if no line has ended."""
        while self._scanned < size and (chunk := os.pread(file, min(CHUNK, size - self._scanned), self._scanned)):
            end = chunk.rfind(b"\n") + 1
            if end:
                return self._scanned + end
            self._scanned += len(chunk)
        return 0


class Merger:
    """Follows every log file of a run until it is told to stop."""

    def __init__(
        self, root: Path, sink: Sink, label: Label, prefixes: Prefixes, on_broken: Callable[[OSError], None]
    ) -> None:
        self._root = root
        self._sink = sink
        self._label = label
        self._prefixes = prefixes
        self._on_broken = on_broken
        self._readers: dict[Source, _Reader] = {}
        self._ended: set[Source] = set()
        self._stop = threading.Event()
        self._abandon = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="logs", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def ended(self, namespace: str, pod: str, uid: str, container: str, restart: int) -> None:
        """Say that a container has ended: a last line without an end is printed now."""
        self._ended.add(Source(namespace, pod, uid, container, restart))

    def close(self) -> None:
        """Have everything printed that is left, then end; to be called when no container runs any more."""
        self._stop.set()

    def finish(self) -> None:
        """Close, and wait until the sink has taken everything."""
        self.close()
        if self._thread.is_alive():
            self._thread.join()

    def abandon(self) -> None:
        """Stop at once and print nothing more, even while the sink is blocked."""
        self._abandon.set()
        self._stop.set()

    @property
    def busy(self) -> bool:
        """Say whether there is still something that will be printed."""
        return self._thread.is_alive() and not self._abandon.is_set()

    def _follow(self) -> None:
        try:
            while not self._stop.is_set():
                if not self._round(last=False):
                    self._stop.wait(POLL_SECONDS)
            while not self._abandon.is_set() and self._round(last=True):
                pass
        except OSError as error:
            self._on_broken(error)

    def _round(self, *, last: bool) -> bool:
        """Give each file one turn and say whether any had something to print."""
        found = list(sources(self._root))
        newest = {(source.uid, source.container): source.restart for source in found}
        turns = [self._turn(source, newest, last=last) for source in found]
        return any(turns)

    def _turn(self, source: Source, newest: dict[tuple[str, str], int], *, last: bool) -> bool:
        if self._abandon.is_set():
            return False
        label = self._label(source)
        if label == "" or (label is None and not last):
            return False
        reader = self._readers.get(source) or self._readers.setdefault(source, _Reader(source.path(self._root)))
        over = last or source in self._ended or newest[source.uid, source.container] > source.restart
        prefix, open_line, printed = b"", False, False
        for piece in reader.more(ended=over):
            prefix = prefix or self._prefixes.of(label or source.pod)  # only who prints takes a colour and width
            self._sink(prefixed(piece, prefix, open_line=open_line))
            open_line, printed = not piece.endswith(b"\n"), True
        return printed


def write_all(file: int, data: bytes) -> None:
    """Write all of `data`, however much one call takes; blocks as long as the reader wants."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
