#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `weir sessions` from outside: `sessions_test.py WEIR SOURCE_DIR [unittest arguments]`."""
import json
import os
import random
import subprocess
import threading
import time

from black_box_case import WEIR, Case, main

KILLS = int(os.environ.get("WEIR_TEST_KILLS", "12"))
TURNS = 8
NAMES = ("ann", "bob", "cay")


def turn(name, number):
    """Returns a turn of a session. Every third one answers nothing, and the sixth one empties the context."""
    if number == 6:
        return {"session": name, "turn": number, "reset": True}
    return {"session": name, "turn": number, "text": f"{name} says {'x' * (11 * number)} and the weir ",
            "tokens": 0 if number % 3 == 0 else 5 + number, "seed": len(name) + ord(name[0])}


class Base(Case):
    """A short run whose parameters the sessions share."""

    def setUp(self):
        super().setUp()
        self.run_it("model", 2048)

    def sessions(self, *turns, folder="talk", begin=True, code=0):
        """Answers turns in one process, and returns the answers."""
        lines = "".join(t if isinstance(t, str) else json.dumps(t) + "\n" for t in turns)
        args = ["sessions", folder] + (["--from", "model"] if begin else [])
        done = self.weir(*args, stdin=lines.encode("utf-8", "surrogateescape"), code=code)
        self.notes = done.stderr.decode()
        return [json.loads(line) for line in done.stdout.decode().splitlines()]

    def shown(self, folder="talk"):
        return json.loads(self.weir("checkpoint", "show", folder, "--json").stdout)


class Sessions(Base):
    def test_answers_continue_in_the_next_process(self):
        whole = self.sessions(*[turn("ann", n) for n in range(1, 5)], folder="whole")
        first = self.sessions(*[turn("ann", n) for n in range(1, 3)])
        self.assertRegex(self.notes, r"note: 2 turns, 1 sessions; of the last 2 turns, [0-9.]+ ms at the median, ")
        second = self.sessions(*[turn("ann", n) for n in range(3, 5)], begin=False)
        for answer in whole + first + second:
            del answer["seconds"]
        self.assertEqual(first + second, whole)
        shown, other = self.shown(), self.shown("whole")
        self.assertEqual(shown["sessions"], other["sessions"])
        self.assertEqual([(s["session"], s["turns"], s["seed"]) for s in shown["sessions"]], [("ann", 4, 100)])

    def test_checkpoints_refer_to_the_parameters(self):
        for number in range(1, 5):
            self.sessions(turn("ann", number))
        self.sessions(*[turn("bob", n) for n in range(1, 5)])
        shown = self.shown()
        self.assertEqual(shown["turn"], 8)
        self.assertIn("PARAM/message", shown["base"]["sections"])
        text = self.weir("checkpoint", "show", "talk").stdout.decode()
        self.assertRegex(text, r"session ann: 4 turns, [0-9]+ tokens, [0-9]+ of them drawn, seed 100, history [0-9a-f]{16}\n")
        self.assertRegex(text, r" of unchanged sections in generation [0-9]+: PARAM/message")
        verified = self.weir("checkpoint", "verify", "talk").stdout.decode()
        self.assertRegex(verified, r"generation [0-9]+, turn 8, refers to generation [0-9]+, every byte verified")
        files = {p.name: p.stat().st_size for p in (self.folder / "talk" / "checkpoint").glob("ck-*")}
        self.assertLess(min(files.values()), max(files.values()) - shown["base"]["bytes"] + 8192, files)

    def test_lines_that_cannot_be_answered_do_not_end_it(self):
        answers = self.sessions(
            "nonsense\n", "\n", "[1]\n", {"session": "ann", "text": 7}, {"session": "ann", "tokens": -1},
            {"session": "ann", "txt": "x"}, {"session": "a/b", "text": "x"}, {"session": "ann", "text": "x", "ids": [1]},
            {"session": "ann", "reset": True, "text": "x"}, {"session": "ann", "ids": [256, 999]},
            "[" * 100_000 + "\n", '{"session": ' + "[" * 100_000 + "\n", '{"session": "' + "x" * (9 << 20) + '"}\n',
            {"session": "ann", "text": "x", "turn": 3}, {"session": "ann", "ids": [120], "tokens": 2, "temperature": 0})
        self.assertEqual([a["line"] for a in answers[:-1]], [1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14])
        self.assertEqual({a["code"] for a in answers[:-1]}, {"invalid_argument", "out_of_range"})
        for answer, text in zip(answers, (
                "cannot use line 1: expected a JSON object in UTF-8, found another text",
                "cannot use line 3: expected a JSON object in UTF-8, found another text",
                'cannot use line 4: expected a string under "text"',
                'cannot use line 5: expected a whole number of at least 0 under "tokens", found -1',
                "cannot use line 6: expected the keys session, text, ids, tokens, temperature, seed, turn, reset and "
                'close, found "txt" with "x"')):
            self.assertEqual(answer["error"], text)
        self.assertIn("expected at most 8388608 bytes", answers[11]["error"])
        self.assertEqual(answers[-1]["turn"], 1)
        self.assertEqual(len(answers[-1]["ids"]), 2)

    def test_ids_that_are_no_bytes_are_refused_with_the_range(self):
        for wrong in (257, 999, 2**32 + 65, 2**64 - 1):
            [answer, after] = self.sessions({"session": "ann", "ids": [120, wrong]}, {"session": "ann", "text": "x"})
            self.assertEqual((answer["code"], answer["line"]), ("invalid_argument", 1))
            self.assertRegex(answer["error"], rf": expected ids below 25[67], found {wrong} as token 1$")
            self.assertNotIn("error", after)

    def test_an_answer_is_durable_when_it_is_printed_and_comes_while_the_input_is_open(self):
        child = subprocess.Popen([WEIR, "sessions", "talk", "--from", "model"], cwd=self.folder,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            for number in range(1, 4):
                child.stdin.write(json.dumps(turn("ann", number)).encode() + b"\n")
                child.stdin.flush()
                self.assertEqual(json.loads(child.stdout.readline())["turn"], number)
                self.assertEqual(self.shown()["sessions"][0]["turns"], number)
            self.assertIn("lock", self.error("sessions", "talk", code=5))
        finally:
            child.kill()
            child.communicate()

    def test_begins_only_with_parameters(self):
        message = self.error("sessions", "new", code=2)
        self.assertEqual(message, 'cannot begin sessions in "new": expected a run folder or a volume with parameters, '
                                  "found none; name one with --from")
        self.assertFalse((self.folder / "new").exists())
        # A process that was killed before its first checkpoint leaves such a folder.
        (self.folder / "new" / "checkpoint").mkdir(parents=True)
        self.assertEqual(self.error("sessions", "new", code=2), message)

    def test_answers_that_a_damaged_checkpoint_held_are_reported(self):
        self.sessions(turn("ann", 1))
        self.sessions(turn("ann", 2), begin=False)
        newest = max((self.folder / "talk" / "checkpoint").glob("ck-*.weir"), key=lambda p: int(p.stem[3:]))
        content = bytearray(newest.read_bytes())
        content[len(content) // 2] ^= 1
        newest.write_bytes(content)
        again = self.sessions(turn("ann", 2), begin=False)
        self.assertEqual([(a["turn"], a["repeated"]) for a in again], [(2, False)])
        self.assertIn("a newer checkpoint cannot be read, so that turns behind generation", self.notes)


class Client:
    """Asks all turns of a session in their order, and asks the last one again whenever the process has died."""

    def __init__(self, name):
        self.name = name
        self.answers = []

    def talk(self, test, kill_after):
        """Talks to a new process until it is killed. Returns whether all turns have been answered."""
        child = subprocess.Popen([WEIR, "sessions", "talk", "--from", "model"], cwd=test.folder,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        timer = threading.Timer(kill_after, child.kill) if kill_after else None
        if timer:
            timer.start()
        try:
            for number in range(len(self.answers) + 1, TURNS + 1):
                child.stdin.write(json.dumps(turn(self.name, number)).encode() + b"\n")
                child.stdin.flush()
                line = child.stdout.readline()
                if not line.endswith(b"\n"):
                    break
                self.answers.append(json.loads(line))
        except BrokenPipeError:
            pass
        finally:
            if timer:
                timer.cancel()
            child.kill()
            child.communicate()
        return len(self.answers) == TURNS


class Kills(Base):
    def test_kills_at_random_moments_change_no_answer(self):
        expected = {name: self.sessions(*[turn(name, n) for n in range(1, TURNS + 1)], folder=name) for name in NAMES}
        seed = int.from_bytes(os.urandom(4), "big")
        chance = random.Random(seed)
        begun = time.monotonic()
        self.sessions({"session": "zed", "text": "x"})
        start = time.monotonic() - begun  # how long a process takes for one turn
        kills = 0
        clients = [Client(name) for name in NAMES]
        while any(len(c.answers) < TURNS for c in clients):
            client = chance.choice([c for c in clients if len(c.answers) < TURNS])
            kills += 1
            client.talk(self, chance.uniform(0.3, 2) * start if kills <= KILLS else None)
        with self.subTest(seed=seed):
            for client in clients:
                for got, wanted in zip(client.answers, expected[client.name]):
                    for key in ("turn", "text", "position"):
                        self.assertEqual(got.get(key), wanted.get(key), (client.name, got))
            shown = {s["session"]: s for s in self.shown()["sessions"]}
            for name in NAMES:
                self.assertEqual(shown[name], self.shown(name)["sessions"][0])
        self.weir("checkpoint", "verify", "talk")


if __name__ == "__main__":
    main()
