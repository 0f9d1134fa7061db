"""(kind, job, observed, now) to Decision: what to do next, as a pure function."""
