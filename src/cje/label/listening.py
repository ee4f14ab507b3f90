"""The socket that the labelling page listens on."""

from __future__ import annotations

import socket

from cje.errors import CJEError

__all__ = ["bind"]


def bind(host: str, port: int) -> socket.socket:
    """Open a socket that listens on exactly this address.

    Raises
    ------
    CJEError
        The port is not a port number, or the address is in use or not of this machine.
    """
    if not 0 <= port <= 65_535:
        raise CJEError("the port must be a number from 0 to 65535", value=port)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(1_024)
    except OSError as error:
        raise CJEError(
            f"cannot listen there: {error.strerror or error}", value=f"{host}:{port}",
            hint="choose another --port; 0 picks a free one",
        ) from error  # fmt: skip
    return found
