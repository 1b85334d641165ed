#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The prose demo: a model reads a text once, is killed, resumes, ends in the same state, and speaks.

CORPUS=path takes another text (a file or a folder); WEIR=path another binary. Needs nothing but the Python
standard library. Leaves runs/demo; a second run replaces only what this script has made.
"""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
WEIR = os.environ.get("WEIR", str(ROOT / "build" / "weir"))
CONFIG = "demos/prose/prose.toml"
KILLED = "runs/demo"
STRAIGHT = "runs/demo-uninterrupted"
VOLUME = KILLED + "/parameters.hn4"
TAG = "prose"
PACKAGES = ["perl-modules-5.36", "libperl5.36"]
TEST_TOKENS = 16384


class Failure(Exception):
    """A failure that ends the demo, with a sentence that describes it."""


def say(text):
    print(text, flush=True)


def weir(*args, stdin=None):
    """Runs one command to its end and returns its standard output as bytes."""
    done = subprocess.run([WEIR, *args], stdin=stdin, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise Failure(f"weir {' '.join(args[:2])} ended with {done.returncode}")
    return done.stdout


def corpus_files():
    """Returns the files of the text, sorted by the bytes of their paths: CORPUS, or the manual pages of Perl."""
    chosen = os.environ.get("CORPUS")
    if chosen:
        path = Path(chosen).resolve()
        files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
        files = [p for p in files if not any(part.startswith(".") for part in p.relative_to(path).parts)]
    else:
        listed = subprocess.run(["dpkg", "-L", *PACKAGES], capture_output=True, text=True, check=False)
        files = [Path(line) for line in listed.stdout.splitlines() if line.endswith(".pod")]
        files = [p for p in files if p.is_file()]
        if listed.returncode != 0 or not files:
            raise Failure("no text to read: apt-get install perl, or choose one with CORPUS=path")
    files = sorted((str(p) for p in files if p.stat().st_size > 0), key=os.fsencode)
    if not files:
        raise Failure(f"no text to read: {chosen} holds no file with content")
    return files


def clear(folder):
    """Removes the run folder of an earlier demo. Fails if the folder is anything else."""
    path = Path(folder)
    if not path.exists():
        return
    config = path / "config.toml"
    ours = not any(path.iterdir()) or (config.is_file() and 'name = "demo"' in config.read_text())
    if not ours:
        raise Failure(f"{folder} is no run of this demo: move it away")
    shutil.rmtree(path)


def run_command(folder, files, tokens):
    """Returns the command line of one run, and the tokens between its checkpoints.

    The run learns from the whole text once and then predicts its beginning again, without learning.
    """
    every = max(1024, min(100_000, tokens // 10))
    return [WEIR, "run", CONFIG, "--out", folder,
            "--set", 'name="demo"',
            "--set", "stream.path=" + json.dumps(files),
            "--set", "stream.end=loop",
            "--set", 'phase.build.tokens="all"',
            "--set", f"phase.test.tokens={min(TEST_TOKENS, tokens)}",
            "--set", "phase.stream.tokens=0",
            "--set", f"checkpoint.every_tokens={every}",
            "--set", f"run.workers={min(2, os.cpu_count() or 1)}"], every


def kill_somewhere(command, every, tokens):
    """Starts a run and kills it at a random moment after its first checkpoint.

    Returns the seconds that it ran, or None if it ended before it could be killed.
    """
    begun = time.monotonic()
    child = subprocess.Popen(command)
    checkpoints = Path(KILLED) / "checkpoint"
    while child.poll() is None and not list(checkpoints.glob("ck-*.weir")):
        time.sleep(0.01)
    first = time.monotonic() - begun
    left = max(0.0, first * (tokens / every - 1))
    moment = random.SystemRandom().uniform(0.0, 0.8 * left)
    try:
        child.wait(timeout=moment)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGKILL)
        child.wait()
        return time.monotonic() - begun
    if child.returncode != 0:
        raise Failure(f"weir run ended with {child.returncode}")
    return None


def metrics(folder):
    return json.loads((Path(folder) / "metrics.json").read_text())


def newest_checkpoint(folder):
    listed = json.loads(weir("checkpoint", "ls", folder, "--json"))
    return max((c for c in listed["checkpoints"] if c["valid"]), key=lambda c: c["generation"])


def store_and_list():
    """Stores the parameters in a volume, reads them back, and returns the description of their message."""
    weir("store", KILLED, VOLUME, "--tag", TAG)
    cat = subprocess.Popen([WEIR, "hn4", "cat", VOLUME, TAG], stdout=subprocess.PIPE)
    listed = weir("tgm", "ls", "-", "--json", stdin=cat.stdout)
    cat.stdout.close()
    if cat.wait() != 0:
        raise Failure("weir hn4 cat failed")
    return json.loads(listed)["messages"][0]


def learn(files, tokens):
    """Performs the run that is killed and resumed, and the run without interruption. Describes the kill in words."""
    say(f"== 1. learn, and die: {KILLED}")
    command, every = run_command(KILLED, files, tokens)
    lived = kill_somewhere(command, every, tokens)
    if lived is None:
        killed = "it ended before it could be killed; CORPUS is short"
    else:
        last = newest_checkpoint(KILLED)
        killed = (f"SIGKILL after {lived:.1f} s; newest checkpoint: generation {last['generation']}, "
                  f"pulse {last['pulse']}")
        say(f"\n== killed: {killed}")
    say("== 2. resume")
    done = subprocess.run([WEIR, "resume", KILLED], check=False)
    if done.returncode != 0:
        raise Failure(f"weir resume ended with {done.returncode}")
    say(f"== 3. the same without interruption: {STRAIGHT}")
    done = subprocess.run(run_command(STRAIGHT, files, tokens)[0], check=False)
    if done.returncode != 0:
        raise Failure(f"weir run ended with {done.returncode}")
    return killed


def prompt_from(files):
    """Returns three words from the middle of the text."""
    text = Path(files[len(files) // 2]).read_bytes().decode("utf-8", "replace")
    words = text[len(text) // 2:].split()
    return "The " if len(words) < 3 else " ".join(words[:3]) + " "


def summary(files, size, killed, message, spoken):
    ours, other = metrics(KILLED), metrics(STRAIGHT)
    compared = json.loads(weir("report", KILLED, "--json"))
    same = ours["state_hash"] == other["state_hash"]
    digest = message["digest"] == ours["parameter_hash"]
    bits = ours["bits_per_byte"]
    orders = ", ".join(f"{o:.2f}" for o in compared["orders"])
    say("\n== The prose demo in ten lines")
    say(f"text       {len(files)} files, {size:,} bytes, read once")
    say(f"learned    {bits['cumulative']:.3f} bits per byte over the text, {bits['last_quarter']:.3f} over its "
        f"last quarter")
    say(f"compared   gzip -9 {compared['gzip']:.3f}; count models of order 0 to 3: {orders}")
    say(f"speed      {ours['tokens_per_second']:,.0f} tokens/s, peak memory "
        f"{ours['peak_rss_bytes'] / 2**20:.0f} MiB, waited {1000 * ours['stall_seconds']:.1f} ms for text")
    say(f"killed     {killed}")
    say(f"states     {ours['state_hash']} (killed, resumed) and {other['state_hash']} (uninterrupted): "
        f"{'identical' if same else 'DIFFERENT'}")
    say(f"volume     {VOLUME}, tag {TAG}: {len(message['objects'])} tensors, digest {message['digest']} "
        f"{'equals' if digest else 'DIFFERS FROM'} parameter_hash")
    say(f"stream     from the volume, context empty: {spoken['tokens']} tokens after "
        f"{json.dumps(spoken['prompt'])}")
    say("spoken     " + " ".join(spoken["text"].split())[:100])
    say(f"look at    {KILLED}/report.html, and continue it: build/weir speak {KILLED} --prompt TEXT --tokens 200")
    if not same or not digest:
        raise Failure("the states differ" if not same else "the volume holds other parameters than the run")


def main():
    os.chdir(ROOT)
    if not os.access(WEIR, os.X_OK):
        raise Failure(f"{WEIR} is not there: run make build")
    files = corpus_files()
    size = sum(os.path.getsize(f) for f in files)
    for folder in (KILLED, STRAIGHT):
        clear(folder)
    say(f"text: {len(files)} files, {size:,} bytes, from {files[0]} to {files[-1]}")
    killed = learn(files, size + len(files) - 1)
    say(f"== 4. parameters into a volume and back: {VOLUME}")
    message = store_and_list()
    say("== 5. speak from the volume, with an empty context")
    spoken = json.loads(weir("speak", VOLUME, "--tag", TAG, "--prompt", prompt_from(files), "--tokens", "300",
                             "--temperature", "0.6", "--seed", "7", "--json"))
    say(spoken["prompt"] + spoken["text"])
    summary(files, size, killed, message, spoken)


if __name__ == "__main__":
    try:
        main()
    except Failure as problem:
        print(f"demo: {problem}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
