"""The process kubelet: pods as process trees."""
