"""Where objects live: one protocol, several implementations."""
