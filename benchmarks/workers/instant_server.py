"""An HTTP server that answers every POST at once with one judge's verdict; prints its base URL."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

VERDICT = {"reasoning": "It answers the question.", "score": 4}
BODY = json.dumps(
    {
        "id": "0", "object": "chat.completion", "created": 0, "model": "judge",
        "choices": [
            {
                "index": 0, "finish_reason": "stop",
                "message": {"role": "assistant", "content": json.dumps(VERDICT)},
            }
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105},
    }
).encode()  # fmt: skip
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY)
) + BODY


class Connection(asyncio.Protocol):
    """Reads a request to its end and answers; keeps the connection open."""

    def connection_made(self, transport: Any) -> None:
        self.transport, self.buffer = transport, b""
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, gap, rest = self.buffer.partition(b"\r\n\r\n")
        if not gap:
            return
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        if len(rest) >= length:
            self.buffer = rest[length:]
            self.transport.write(ANSWER)


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
