"""The two ways in which a pod cannot be run as it is written."""


class Refused(Exception):  # noqa: N818 - reads as what happened
    """It will never work here; the sentence says the path, what was found and what would work."""


class Missing(Exception):  # noqa: N818
    """Something it needs is not there yet (a ConfigMap, a key, a folder); tried again until it is."""
