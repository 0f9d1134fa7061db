"""HTTP/1.1, the server's side: the one small server behind everything we serve (nodes, webhooks, probes, local API)."""
