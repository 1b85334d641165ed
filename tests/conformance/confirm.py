#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the conformance vectors with the reference's package: `confirm.py FOLDER`.

The program needs `tensogram` and `numpy` from PyPI. The package must decode a sound file to the same bytes, and must find
an error in every other file, except in those of the list below, whose faults the reference is known to overlook.
"""
import hashlib
import json
import os
import sys

# The reference's validation does not hash the metadata at every level and does not compare the length in the
# postamble.
BLIND = {"damage/bad_metadata.tgm", "damage/bad_postamble.tgm"}


def main():
    """Compares every file of the manifest with the verdict and the elements of the reference's package."""
    import tensogram
    folder = sys.argv[1]
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as f:
        manifest = json.load(f)
    objects = 0
    for name, entry in manifest.items():
        path = os.path.join(folder, name)
        with open(path, "rb") as f:
            content = f.read()
        report = tensogram.validate_file(path)
        errors = list(report["file_issues"]) + [i for m in report["messages"] for i in m["issues"]
                                                if i["severity"] == "error"]
        if not entry["sound"]:
            if not errors and report["messages"] and name not in BLIND:
                sys.exit(f"FAILED: {name} passes for sound")
            continue
        if errors:
            sys.exit(f"FAILED: {name}: {errors}")
        for message in entry["messages"]:
            part = content[message["offset"]:message["offset"] + message["length"]]
            _, decoded = tensogram.decode(part)
            if len(decoded) != len(message["objects"]):
                sys.exit(f"FAILED: {name}: {len(decoded)} objects")
            for i, ((_, array), expected) in enumerate(zip(decoded, message["objects"])):
                if hashlib.sha256(array.tobytes()).hexdigest() != expected["sha256"]:
                    sys.exit(f"FAILED: {name}, object {i}: elements differ")
                objects += 1
    print(f"{len(manifest)} files, {objects} objects confirmed")


if __name__ == "__main__":
    main()
