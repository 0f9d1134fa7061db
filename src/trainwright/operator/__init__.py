"""The running loops: the only place where decisions meet a cluster."""
