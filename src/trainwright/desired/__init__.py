"""Job and Wiring to the objects that should exist."""
