"""Job and Wiring to the objects that should exist, and the reason for every field we add to them."""

from trainwright.desired.base import (
    KUBERNETES,
    BuiltPod,
    Desired,
    Gang,
    Injection,
    Settings,
    WantedPod,
    explain,
    render,
)

__all__ = ["KUBERNETES", "BuiltPod", "Desired", "Gang", "Injection", "Settings", "WantedPod", "explain", "render"]
