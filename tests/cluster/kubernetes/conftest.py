"""The real API server, for those tests here that want one."""

from tests.cluster.kubernetes.real import kubeconfig

__all__ = ["kubeconfig"]
