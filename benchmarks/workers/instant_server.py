"""An HTTP server that answers at once; prints its base URL.

A completion gets its prompt's words with log-probs, everything else one judge's verdict.
"""

from __future__ import annotations

import asyncio
import json
import re
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
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
ANSWER = HEAD % len(BODY) + BODY


def _echo(request: bytes) -> bytes:
    """The words of a prompt, each with a log-prob, and one word more."""
    prompt = json.loads(request)["prompt"]
    tokens = [*re.findall(r"\s*\S+|\s+$", prompt), " x"]
    block = {"tokens": tokens, "token_logprobs": [None] + [-1.5] * (len(tokens) - 1)}
    choice = {"index": 0, "text": f"{prompt} x", "finish_reason": "length", "logprobs": block}
    usage = {"prompt_tokens": len(tokens) - 1, "completion_tokens": 1, "total_tokens": len(tokens)}
    answer = {"id": "0", "object": "text_completion", "created": 0, "model": "m",
              "choices": [choice], "usage": usage}  # fmt: skip
    body = json.dumps(answer).encode()
    return HEAD % len(body) + body


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
            completion = head.startswith(b"POST /v1/completions")
            self.transport.write(_echo(rest[:length]) if completion else ANSWER)


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
