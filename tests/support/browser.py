"""A headless Chromium over its debugging pipe: pages of files, at a width and in a colour scheme."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
            "--hide-scrollbars", "--no-first-run")  # fmt: skip


class Browser:
    """One tab. What it asks of the network is kept in `requests`."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read, self._rest, self._number = write, read, b"", 0
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime"):
            self._call(f"{domain}.enable")

    def show(self, page: Path, width: int, scheme: str = "light") -> None:
        """Opens the file and waits until it has loaded."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 700,
        )
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("Emulation.setEmulatedMedia", features=media)
        self._events.clear()
        self._call("Page.navigate", url=page.absolute().as_uri())
        while not any(one["method"] == "Page.loadEventFired" for one in self._events):
            self._take()

    @property
    def requests(self) -> list[str]:
        """The addresses that the page asked for, itself and those in it (data:) left out."""
        sent = [
            one["params"]["request"]["url"]
            for one in self._events
            if one["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in sent[1:] if not url.startswith("data:")]

    def run(self, script: str) -> Any:
        """Returns the value of the expression, or what its promise came to."""
        answer = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def picture(self, path: Path) -> None:
        """Writes the whole page as a PNG."""
        shot = self._call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _call(self, method: str, **given: Any) -> dict[str, Any]:
        self._number += 1
        call: dict[str, Any] = {"id": self._number, "method": method, "params": given}
        if self._session:
            call["sessionId"] = self._session
        os.write(self._write, json.dumps(call).encode() + b"\0")
        while (answer := self._take()).get("id") != self._number:
            pass
        assert "error" not in answer, answer
        return dict(answer["result"])

    def _take(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            found = os.read(self._read, 1 << 20)
            assert found, "the browser has ended"
            self._rest += found
        text, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self._events.append(message)
        return message


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser of its own, gone afterwards with all that it kept."""
    assert CHROMIUM is not None
    commands, answers = os.pipe(), os.pipe()
    with TemporaryDirectory() as profile:
        # The browser reads commands from descriptor 3 and answers at 4.
        line = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"'
        words = ["bash", "-c", line, "bash", str(commands[0]), str(answers[1])]
        words += [CHROMIUM, *_OPTIONS, f"--user-data-dir={profile}"]
        program = subprocess.Popen(
            words, pass_fds=(commands[0], answers[1]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(commands[0])
        os.close(answers[1])
        try:
            yield Browser(commands[1], answers[0])
        finally:
            os.close(commands[1])
            program.terminate()
            program.wait(20)
            os.close(answers[0])
