# SPDX-License-Identifier: Apache-2.0
"""`verbatim.py SOURCE_DIR`: demos/tessera/attention.c holds every line of the specification's example, in order, and
between them no others but the two that say so. Skipped where the specification is not beside the clone."""
import pathlib
import re
import sys

SOURCE = pathlib.Path(sys.argv[1])
SPECIFICATION = SOURCE.parent / "shared" / "spec" / "tessera_runtime_abi.md"


def example():
    section = SPECIFICATION.read_text().split("\n## 18. ", 1)[1]
    return [line for line in re.search(r"```c\n(.*?)```", section, re.DOTALL).group(1).splitlines() if line.strip()]


def main():
    if not SPECIFICATION.exists():
        print(f"skipped: {SPECIFICATION} is not there")
        return 77
    wanted = example()
    text = (SOURCE / "demos" / "tessera" / "attention.c").read_text()
    body = text[text.index("  tessContext_t ctx;"):text.index("  free(fatbin_image);")]
    found = [line for line in body.splitlines() if line.strip()]
    own = [line for line in found if line.endswith("/* added */")]
    theirs = [line[2:] for line in found if line not in own]
    if len(wanted) < 20 or theirs != wanted or len(own) != 2:
        for ours, spec in zip(theirs, wanted):
            if ours != spec:
                print(f"expected: {spec}\nfound:    {ours}")
        print(f"expected {len(wanted)} lines of the specification and 2 others, found {len(theirs)} and {len(own)}")
        return 1
    return 0


sys.exit(main())
