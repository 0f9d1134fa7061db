"""The Kubernetes API of the local home: a MemoryCluster over HTTP, so well that kubectl works against it.

A request is read (`requests`: which resource, which verb), done on the cluster (`writes`, `watching`, `pods`,
`reviews`) and answered in the form the client wants: an object, a list, a table (`tables`), or a Status (`statuses`).
What there is to ask for is `served`, and told to clients by `about`.

Namespaces spring up when something is created in them; whoever may use this machine need not ask for one.
Server-side apply is refused with a sentence: nobody keeps account of whose fields are whose here.
"""

from trainwright.server.api.api import Api

__all__ = ["Api"]
