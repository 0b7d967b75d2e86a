"""Devices and workers: the cluster, how workers find each other, their messages."""
