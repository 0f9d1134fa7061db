"""One verdict about a job, from its objects: why it waits, is stuck, has failed, was resized, or is well.

Pure: `judge` is given everything that was seen, the time included. Who sees it is no concern of this package; `tw why`
gathers the facts in every home. The table of situations is `SITUATIONS`, and docs/why.md prints it.
"""

from trainwright.why.base import Facts, HomeKind, Output, Verdict
from trainwright.why.judge import SITUATIONS, judge

__all__ = ["SITUATIONS", "Facts", "HomeKind", "Output", "Verdict", "judge"]
