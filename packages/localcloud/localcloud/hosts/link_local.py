"""Sockets of this process in a host's own network, where a link-local address is each host's own."""

from __future__ import annotations

import ctypes
import os
import socket
import threading

from localcloud.dataplane import DataPlaneError
from localcloud.hosts.network import NETNS_DIRECTORY

METADATA_ADDRESS, METADATA_PORT = "169.254.169.254", 80
_CLONE_NEWNET = 0x40000000
_WAITING_CONNECTIONS = 32


def listening_in(namespace: str, address: str, port: int) -> socket.socket:
    """A socket that listens in that named network namespace. Raises DataPlaneError.

    A socket stays in the namespace it was made in; the namespace is a thread's own (setns(2)), so a thread that does
    nothing else makes it.
    """
    made: list[socket.socket | OSError] = []

    def work() -> None:
        try:
            made.append(_listening(namespace, address, port))
        except OSError as error:
            made.append(error)

    thread = threading.Thread(target=work, name=f"listens-in-{namespace}")
    thread.start()
    thread.join()
    [found] = made
    if isinstance(found, OSError):
        raise DataPlaneError(f"nothing can listen at {address}:{port} in {namespace}: {found}") from found
    return found


def _listening(namespace: str, address: str, port: int) -> socket.socket:
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(NETNS_DIRECTORY / namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if library.setns(descriptor, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind((address, port))
        listener.listen(_WAITING_CONNECTIONS)
    except OSError:
        listener.close()
        raise
    return listener
