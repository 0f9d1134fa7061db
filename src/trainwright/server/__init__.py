"""`tw serve`: a local control plane for several users, its API over HTTP, its store and who may use it."""
