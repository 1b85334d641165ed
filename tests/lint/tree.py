# SPDX-License-Identifier: Apache-2.0
"""Functions that the checks share: the files of the project, and a list of complaints that decides the exit code."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

# The tests of the checks set the variable to a made-up tree.
ROOT = pathlib.Path(os.environ.get("WEIR_LINT_ROOT") or pathlib.Path(__file__).resolve().parents[2])
LAYERS = ("base", "formats", "storage", "runtime", "tessera", "models", "actors", "tools")
CODE = (".hpp", ".cpp", ".h")
_SKIPPED = re.compile(r"^(build|build-.*|runs|install|\.git|__pycache__)$")


def _walk(folder):
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            if not _SKIPPED.match(path.name):
                yield from _walk(path)
        elif not path.name.endswith(".pyc"):
            yield path


def files():
    """Returns the paths of the project's files, relative to its root, sorted. Files that git ignores are left out."""
    has_git = (ROOT / ".git").exists() and shutil.which("git") is not None
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=False) if has_git else None
    if listed is not None and listed.returncode == 0:
        names = sorted(set(listed.stdout.splitlines()))
        return [pathlib.PurePosixPath(n) for n in names if (ROOT / n).is_file()]
    return [pathlib.PurePosixPath(p.relative_to(ROOT).as_posix()) for p in _walk(ROOT)]


def code_files():
    return [p for p in files() if p.suffix in CODE]


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def without_comments(text):
    """Returns C++ code with its comments replaced by blanks, so that lines and columns stay the same."""
    pattern = re.compile(
        r'R"(?P<d>[^()\\ ]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*.*?\*/',
        re.DOTALL)

    def blank(match):
        token = match.group(0)
        return re.sub(r"[^\n]", " ", token) if token.startswith("/") else token

    return pattern.sub(blank, text)


def _blank_literals(text):
    keep = lambda m: m.group(0)[0] + re.sub(r"[^\n]", " ", m.group(0)[1:-1]) + m.group(0)[-1]
    return re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', keep, text)


def _blank_raw(text):
    return re.sub(r'R"([^()\\ ]*)\(.*?\)\1"',
                  lambda m: '""' + re.sub(r"[^\n]", " ", m.group(0)[2:]), text, flags=re.DOTALL)


def _blank_directives(text):
    """Blanks preprocessor lines with their continuations, because macros do not count as functions."""
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.MULTILINE)


def only_code(text):
    """Returns C++ code with comments, preprocessor lines and the characters of literals replaced by blanks, so that lines and columns
    stay the same."""
    return _blank_directives(_blank_literals(_blank_raw(without_comments(text))))


class Complaints:
    """Complaints of one check. A line of 0 stands for the whole file."""

    def __init__(self, check):
        self.check = check
        self.lines = []

    def add(self, path, line, text):
        self.lines.append(f"{path}:{line}: {text}" if line else f"{path}: {text}")

    def finish(self, checked):
        """Prints the complaints and exits: with 1 if there are some, or if nothing was checked."""
        for line in self.lines:
            print(line)
        verdict = f"{len(self.lines)} complaints" if self.lines else "clean"
        print(f"{self.check}: {checked} checked, {verdict}")
        sys.exit(1 if self.lines or checked == 0 else 0)
