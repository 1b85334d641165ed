# SPDX-License-Identifier: Apache-2.0
"""Installed headers as Doxygen sees them: their declarations, and Doxygen's warnings about their comments."""
import collections
import dataclasses
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import tree  # noqa: E402

ENTRY_PAGE = pathlib.PurePosixPath("docs/reference.md")
DOXYFILE = HERE.parents[2] / "scripts" / "Doxyfile"
CONTAINERS = ("class", "struct", "union")
# Kinds of declarations that need a comment. A macro that only guards a header or helps another macro is no declaration.
KINDS = CONTAINERS + ("function", "variable", "enum", "typedef")
COMMENTS = ("briefdescription", "detaileddescription", "inbodydescription")
WARNING = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): warning: (?P<text>.*)$")


@dataclasses.dataclass(frozen=True)
class Declaration:
    """One public declaration: where it stands, its kind, its name, its type, the names of its parameters, and its comment.

    The type of a function is that of its result. `entries` are the titles of the entries in the comment, such as "Error".
    """
    path: str
    line: int
    kind: str
    name: str
    type: str
    parameters: tuple
    comment: str
    entries: frozenset

    @property
    def documented(self):
        return self.comment != ""

    @property
    def module(self):
        return self.path.split("/")[0]


def paths():
    """Installed headers: those of all folders named `include`, except the folders of tests."""
    return [p for p in tree.files() if p.suffix in (".h", ".hpp") and "include" in p.parts[:-1] and p.parts[0] != "tests"]


def skip_without_doxygen(name):
    """Ends the check with the exit code of a skipped test if Doxygen is not installed."""
    if shutil.which("doxygen") is None:
        print(f"{name}: doxygen is not installed; `make lint` installs it")
        sys.exit(77)


def _is_made_by_compiler(member):
    """True for functions that need no comment: destructors, and what is defaulted or deleted."""
    name, arguments = member.findtext("name", ""), member.findtext("argsstring", "")
    return name.startswith("~") or re.search(r"=\s*(default|delete)\s*$", arguments) is not None


def _words(element):
    """Text of an element and of everything in it, with single blanks."""
    return " ".join("".join(element.itertext()).split()) if element is not None else ""


def _path(element):
    """Path of a declaration below the root. Doxygen gives some of its paths from the root of the machine."""
    file = element.find("location").get("file")
    return file[len(str(tree.ROOT)) + 1:] if file.startswith(str(tree.ROOT)) else file


def _declaration(element, kind, name):
    parameters = (p.findtext("declname") or p.findtext("defname") or "" for p in element.findall("param"))
    comments = [c for c in (element.find(tag) for tag in COMMENTS) if c is not None]
    entries = frozenset(entry.findtext("title") for c in comments for entry in c.iter("simplesect"))
    return Declaration(_path(element), int(element.find("location").get("line") or 0), kind, name, _words(element.find("type")),
                       tuple(p for p in parameters if p), " ".join(filter(None, map(_words, comments))), entries)


def _declarations(folder):
    """Public declarations by Doxygen's id: the page of a file repeats those of its namespaces."""
    found = {}
    for page in sorted(folder.glob("*.xml")):
        for compound in xml.parse(page).getroot().iter("compounddef"):
            hidden = compound.get("prot") == "private"
            if compound.get("kind") in CONTAINERS and not hidden:
                name = compound.findtext("compoundname").split("::")[-1]
                found[compound.get("id")] = _declaration(compound, compound.get("kind"), name)
            for member in compound.iter("memberdef"):
                wanted = member.get("kind") in KINDS and member.get("prot") != "private"
                if wanted and not hidden and not _is_made_by_compiler(member):
                    found[member.get("id")] = _declaration(member, member.get("kind"), member.findtext("name"))
    return sorted(found.values(), key=lambda d: (d.path, d.line, d.name))


def _warnings(text):
    """(path, line, text) of each warning, once: Doxygen repeats them where a comment is shown in several places."""
    found = collections.OrderedDict()
    for line in text.splitlines():
        match = WARNING.match(line)
        if match:
            path = match["file"].removeprefix(str(tree.ROOT) + "/")
            found[path, int(match["line"]), match["text"]] = None
        elif "warning:" in line or "error:" in line:
            found["scripts/Doxyfile", 0, line] = None
    return list(found)


def scan():
    """(declarations, warnings) of all installed headers."""
    inputs = paths() + [ENTRY_PAGE] * (tree.ROOT / ENTRY_PAGE).is_file()
    with tempfile.TemporaryDirectory() as folder:
        settings = "\n".join((DOXYFILE.read_text(encoding="utf-8"), f"OUTPUT_DIRECTORY = {folder}",
                              "INPUT = " + " ".join(map(str, inputs)), "USE_MDFILE_AS_MAINPAGE =", "GENERATE_HTML = NO",
                              "GENERATE_XML = YES", "XML_PROGRAMLISTING = NO", "HAVE_DOT = NO"))
        run = subprocess.run(["doxygen", "-"], input=settings, cwd=tree.ROOT, capture_output=True, text=True, check=False)
        if run.returncode:
            sys.exit(f"doxygen ended with {run.returncode}: {run.stderr.strip()}")
        return _declarations(pathlib.Path(folder) / "xml"), _warnings(run.stderr)
