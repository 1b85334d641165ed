# SPDX-License-Identifier: Apache-2.0
"""The program at a pseudo-terminal."""
import fcntl
import os
import pty
import re
import select
import subprocess
import termios
import time

from black_box_case import WEIR


class Terminal:
    """The program `weir` at a pseudo-terminal, with all its streams or with standard error alone.

    `words` are its arguments. With `piped`, standard input and output are the pipes `child.stdin` and `child.stdout`.
    """

    def __init__(self, folder, *words, piped=False):
        self.master, slave = pty.openpty()
        stream = subprocess.PIPE if piped else slave
        self.child = subprocess.Popen([WEIR, *map(str, words)], cwd=folder, stdin=stream, stdout=stream,
                                      stderr=slave, start_new_session=True,
                                      preexec_fn=lambda: fcntl.ioctl(2, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.seen = ""

    def read_until(self, text, seconds=60):
        """Reads until a text was printed, and returns everything up to its end."""
        return self.read_match(re.escape(text), seconds)

    def read_match(self, pattern, seconds=60):
        """Reads until a regular expression matches, and returns everything up to the end of the match."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.seen):
            ready, _, _ = select.select([self.master], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"expected {pattern!r}, found {self.seen!r}")
            piece = self.read_piece()
            if not piece:
                raise AssertionError(f"expected {pattern!r}, found the end behind {self.seen!r}")
            self.seen += piece
        at = re.search(pattern, self.seen).end()
        found, self.seen = self.seen[:at], self.seen[at:]
        return found

    def read_piece(self):
        """Returns what was printed, or an empty text at the end."""
        try:
            return os.read(self.master, 65536).decode(errors="replace")
        except OSError:  # the other end was closed
            return ""

    def read_some(self, seconds=60):
        """Reads until anything was printed."""
        if not self.seen:
            ready, _, _ = select.select([self.master], [], [], seconds)
            if not ready:
                raise AssertionError("expected output, found none")
            self.seen = self.read_piece()

    def read_rest(self):
        """Returns everything up to the end of the program."""
        while piece := self.read_piece():
            self.seen += piece
        found, self.seen = self.seen, ""
        return found

    def type(self, text):
        """Types a text."""
        os.write(self.master, text.encode())

    def close(self):
        """Waits for the program and returns its exit code."""
        code = self.child.wait(timeout=60)
        os.close(self.master)
        return code
