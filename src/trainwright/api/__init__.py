"""What a user may write: read, default, check; one module per kind."""
