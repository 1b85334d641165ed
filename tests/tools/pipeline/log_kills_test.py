# SPDX-License-Identifier: Apache-2.0
"""Kills a pipeline behind a durable log of live messages with SIGKILL at random instants and resumes it, while a writer goes on
sending through a FIFO and a second pipeline follows the log. Each message in the log must be answered once, in order.

log_kills_test.py WEIR [KILLS]
"""
import errno
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

WEIR = pathlib.Path(sys.argv[1]).resolve()
KILLS = int(os.environ.get("WEIR_TEST_KILLS", sys.argv[2] if len(sys.argv) > 2 else 20))
ACCEPTED = 100  # messages that the log has at least at the end
MADE = f"""[[stage]]
name = "numbers"
use = "generator"
count = {1000 * KILLS}
shape = [8]
[[stage]]
name = "file"
use = "tgm.write"
path = "all.tgm"
"""
LIVE = """[checkpoint]
every = "25 items"
[[stage]]
name = "accepted"
use = "log"
live = "fifo"
path = "log.tgm"
type = "f32[8]"
until = "end"
[[stage]]
name = "negative"
use = "elementwise"
type = "f32[8]"
op = "negate"
[[stage]]
name = "answers"
use = "tgm.write"
path = "answers.tgm"
"""
JOIN = """[[stage]]
name = "followed"
use = "tgm.read"
path = "log.tgm"
follow = true
until = "end"
[[stage]]
name = "copies"
use = "tgm.write"
path = "joined.tgm"
"""


def call(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def values(path):
    """Returns the first element of each message of a file."""
    lines = [json.loads(line) for line in call(WEIR, "tgm", "dump", "--limit", 0, path).splitlines()]
    return [line["values"][0] for line in lines if line.get("object") == 0]


def wait_for_bytes(path, size, process):
    """Waits until a file has at least `size` bytes or a process has ended."""
    while process.poll() is None and not (path.exists() and path.stat().st_size >= size):
        time.sleep(0.01)


class Writer(threading.Thread):
    """Sends messages through the FIFO. A message that nobody can read any more is sent again as a whole."""

    def __init__(self, fifo, messages, end):
        super().__init__()
        self.fifo, self.messages, self.end = fifo, messages, end
        self.finish = threading.Event()
        self.sent = 0

    def run(self):
        pipe = None
        queue = iter(self.messages)
        message = next(queue)
        while True:
            try:
                if pipe is None:
                    pipe = os.open(self.fifo, os.O_WRONLY | os.O_NONBLOCK)
                # Messages are shorter than PIPE_BUF, so they are written as a whole or not at all.
                os.write(pipe, message)
            except OSError as failure:
                if failure.errno == errno.EPIPE:
                    os.close(pipe)
                    pipe = None
                elif failure.errno not in (errno.ENXIO, errno.EAGAIN):
                    raise
                time.sleep(0.002)
                continue
            self.sent += 1
            if message is self.end:
                os.close(pipe)
                return
            message = self.end if self.finish.is_set() else next(queue, self.end)
            time.sleep(0.0005)


def main(top):
    seed = int(os.environ.get("WEIR_TEST_SEED", "0")) or random.randrange(1, 1 << 30)
    print(f"seed {seed} (WEIR_TEST_SEED repeats it)", flush=True)
    instants = random.Random(seed)
    for name, text in (("made.toml", MADE), ("live.toml", LIVE), ("join.toml", JOIN)):
        (top / name).write_text(text, encoding="utf-8")
    call(WEIR, "run", top / "made.toml", "--out", top / "made")
    content = (top / "all.tgm").read_bytes()
    messages = [b"TENSOGRM" + part for part in content.split(b"TENSOGRM")[1:]]
    (top / "one.tgm").write_bytes(messages.pop())
    call(WEIR, "tgm", "set", "-s", "extra.end=1", top / "one.tgm", top / "end.tgm")
    os.mkfifo(top / "fifo")
    writer = Writer(top / "fifo", messages, (top / "end.tgm").read_bytes())
    writer.start()
    kills, joined = 0, None
    while True:
        resumed = (top / "run" / "pipeline.toml").exists()
        words = ["resume", top / "run"] if resumed else ["run", top / "live.toml", "--out", top / "run"]
        process = subprocess.Popen([WEIR, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if kills < KILLS:
            try:
                process.wait(timeout=instants.uniform(0.02, 0.25))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
        else:
            wait_for_bytes(top / "log.tgm", ACCEPTED * max(map(len, messages)), process)
            writer.finish.set()
        if joined is None and kills >= KILLS // 2 and (top / "log.tgm").exists():
            joined = subprocess.Popen([WEIR, "run", top / "join.toml", "--out", top / "join"], stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE)
        errors = process.communicate()[1]
        if process.returncode == -signal.SIGKILL:
            kills += 1
        elif process.returncode == 0:
            break
        else:
            sys.exit(f"the run ended with {process.returncode} after {kills} kills: {errors.decode()}")
    writer.join()
    errors = joined.communicate()[1]
    if joined.returncode != 0:
        sys.exit(f"the run that follows the log ended with {joined.returncode}: {errors.decode()}")
    logged = values(top / "log.tgm")
    if logged != sorted(set(logged)) or len(logged) < ACCEPTED:
        sys.exit(f"expected each message once and in order in the log, found {logged}")
    if values(top / "answers.tgm") != [-v for v in logged]:
        sys.exit(f"expected an answer to each of {len(logged)} messages, found {values(top / 'answers.tgm')} to {logged}")
    if values(top / "joined.tgm") != logged:
        sys.exit(f"expected the {len(logged)} messages of the log, found {values(top / 'joined.tgm')}")
    print(f"{kills} kills: {writer.sent} messages sent, {len(logged)} accepted, each answered once and followed once")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(pathlib.Path(folder))
