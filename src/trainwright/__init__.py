"""Trainwright runs distributed training jobs from the manifests people already have."""

__version__ = "0.1.0"
