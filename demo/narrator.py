"""The demonstration tells what happens: a line per event, and one line that always shows where the day is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

# Into a file no minute passes without a line.
LONGEST_SILENCE_SECONDS = 20.0


class Narrator:
    """Prints lines with the real seconds since the start. On a terminal the last line shows where the day is; into a
    file that line is printed where nothing else was for a while."""

    def __init__(self, console: Console) -> None:
        self._console, self._started = console, time.monotonic()
        self._told, self._last = self._started, ""
        self._ended = threading.Event()
        self.where: Callable[[], str] = lambda: self._last
        self._live = Live(console=console, get_renderable=self._line, refresh_per_second=2, transient=True)

    def __enter__(self) -> Narrator:
        if self._console.is_terminal:
            self._live.start()
        else:
            threading.Thread(target=self._listen, name="narrator", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._live.stop()

    @property
    def seconds(self) -> float:
        """Real seconds since the start."""
        return time.monotonic() - self._started

    def __call__(self, text: str) -> None:
        self._last = text
        self._print(Text(text))

    def chapter(self, title: str) -> None:
        """A new part of the story."""
        self._console.print(f"\n[bold]{title}[/]")

    def _print(self, text: Text) -> None:
        self._told = time.monotonic()
        self._console.print(Text(f"{self.seconds:6.1f} s  ", style="dim").append_text(text))

    def _line(self) -> Text:
        return Text(f"{self.seconds:6.1f} s  {self.where()}", style="bold")

    def _listen(self) -> None:
        while not self._ended.wait(1.0):
            self.break_silence()

    def break_silence(self) -> None:
        """Print where the day is, where nothing was told for a while."""
        if time.monotonic() - self._told > LONGEST_SILENCE_SECONDS:
            self._print(Text(self.where()))
