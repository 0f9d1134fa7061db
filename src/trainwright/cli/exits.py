"""The exit codes of `tw`: what a script that calls us may rely on.

A job that failed gives its culprit rank's own code, so that `tw run` can stand where the bare command stood; 124 to 127
mean what they mean to `timeout`, `env` and the shell.
"""

OK = 0
REFUSED = 1
"""As things are, that cannot be done: the job has ended, is not elastic, or was changed by somebody else meanwhile."""
USAGE = 2
DEADLINE = 124
"""--timeout, or the job's own activeDeadlineSeconds, has passed."""
OURS = 125
"""Trainwright itself could not do it: no isolation works, the job fits nowhere, a fault of ours."""
REJECTED = 126
"""The manifest is wrong; everything that is wrong was said."""
NOT_FOUND = 127
"""No such file, job or rank."""
INTERRUPTED = 130
CANCELLED = 143


def after_signal(number: int) -> int:
    """Return the exit code that stands for the end by a signal."""
    return 128 + number
