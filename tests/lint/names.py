# SPDX-License-Identifier: Apache-2.0
"""Checks that no two files of a target define functions, types or constants of one name for themselves (docs/decisions/008, 023, 025).

Builds compile several files of a target as one translation unit. A call could then choose a function of another file,
with conversions and without a warning, and two types or constants of one name do not compile, which only some sizes of batches would
show. A target consists of the sources below one CMakeLists.txt.
"""
import collections
import re

import tree

NAMESPACE = re.compile(r"(inline\s+)?namespace\b\s*([\w:]*)\s*$")
NAME = re.compile(r"([A-Za-z_]\w*)\s*$")
TYPE = re.compile(r"\b(class|struct|enum|union)\b[^()]*$")
NAMED_TYPE = re.compile(r"\b(?:class|struct|enum\s+class|enum|union)\s+(\w+)\s*(?:final\s*)?(?::[^:][^()]*)?$")
CONSTANT = re.compile(r"^(?:static\s+|inline\s+)*(?:constexpr|constinit|const)\b[^=({]*?\b(\w+)\s*(?:\[[^\]]*\]\s*)*(?:=|$)")
ATTRIBUTE = re.compile(r"\[\[.*?\]\]|\balignas\([^()]*\)|\b__attribute__\(\([^()]*(\([^()]*\))?\)\)", re.DOTALL)


def without_templates(head):
    """Removes the lists behind `template`."""
    out, depth, at = [], 0, 0
    for m in re.finditer(r"\btemplate\s*<", head):
        if m.start() < at:
            continue
        out.append(head[at:m.start()])
        depth, at = 1, m.end()
        while at < len(head) and depth:
            depth += {"<": 1, ">": -1}.get(head[at], 0)
            at += 1
    return "".join(out) + head[at:]


def function_of(head):
    """Returns the name of the function whose body follows `head`, or None if another thing has the body."""
    head = without_templates(ATTRIBUTE.sub("", head))
    begin = head.find("(")
    if begin < 0 or TYPE.search(head) or "=" in head[:begin] or "operator" in head[:begin]:
        return None
    name = NAME.search(head[:begin])
    qualified = name and head[:name.start()].rstrip().endswith("::")
    return name.group(1) if name and not qualified else None


def thing_of(head):
    """Returns the name of the type or of the constant that `head` defines, or None."""
    head = without_templates(ATTRIBUTE.sub("", head)).strip()
    found = NAMED_TYPE.search(head) or CONSTANT.search(head)
    return found.group(1) if found else None


def own_names(text):
    """Returns (name, line) of the functions with a body, the types and the constants that only their file can use."""
    code = tree.only_code(text)
    stack, head_start, found, line = [], 0, [], 1
    for i, c in enumerate(code):
        line += c == "\n"
        if c == "{":
            head = code[head_start:i].strip()
            space = NAMESPACE.search(head)
            if space and all(kind != "body" for kind in stack):
                stack.append("named" if space.group(2) else "unnamed")
            else:
                outermost = all(kind != "body" for kind in stack)
                if outermost and ("unnamed" in stack or re.search(r"\bstatic\b", head)):
                    name = function_of(head) or ("unnamed" in stack and thing_of(head))
                    if name:
                        found.append((name, line))
                stack.append("body")
            head_start = i + 1
        elif c == "}":
            if stack:
                stack.pop()
            head_start = i + 1
        elif c == ";":
            if "unnamed" in stack and "body" not in stack:
                name = thing_of(code[head_start:i].strip())
                if name and CONSTANT.search(code[head_start:i].strip()):
                    found.append((name, line))
            head_start = i + 1
    return found


def main():
    complaints = tree.Complaints("names")
    paths = tree.files()
    targets = {p.parent for p in paths if p.name == "CMakeLists.txt"}
    sources = [p for p in paths if p.suffix == ".cpp" and p.parts[0] in tree.LAYERS + ("pipeline",)]
    seen = collections.defaultdict(dict)
    for path in sources:
        target = next((parent for parent in path.parents if parent in targets), path.parent)
        for name, line in own_names(tree.read(path)):
            first = seen[target].setdefault(name, path)
            if first != path:
                complaints.add(path, line, f"{first} of the same target defines {name} for itself, too: batches of files "
                               "could mix them up; give one of them another name")
    complaints.finish(len(sources))


if __name__ == "__main__":
    main()
