"""A server of presigned addresses that answers as S3 does on a bad day."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

CUT = 0
"""Announces all of it and closes the connection after the first bytes."""
_ANNOUNCED_BYTES = 600_000


@dataclass
class Downloads:
    """Answers with the statuses of `first`, one a request (CUT among them), then with the content."""

    content: bytes
    url: str = ""
    first: list[int] = field(default_factory=list)
    asked: int = 0


@contextmanager
def serving(content: bytes) -> Iterator[Downloads]:
    downloads = Downloads(content)

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            downloads.asked += 1
            status = downloads.first.pop(0) if downloads.first else 200
            body = downloads.content if status == 200 else b"<Error/>"
            self.send_response(status or 200)
            self.send_header("Content-Length", str(_ANNOUNCED_BYTES if status == CUT else len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    downloads.url = f"http://127.0.0.1:{server.server_address[1]}/package.pyz?X-Amz-Signature=secret"
    try:
        yield downloads
    finally:
        server.shutdown()
        server.server_close()
