#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Streams a local data set of Hugging Face datasets by the protocol of sources: hf_datasets.py SOURCE_DIR WORK_FOLDER.

The package comes from $WEIR_DATASETS_PYTHON (an interpreter that has it), or is installed from PyPI into a virtual
environment below WORK_FOLDER. Exit 77, which CTest counts as skipped, where it cannot be had.
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import virtual_environment  # noqa: E402

PACKAGES = ["datasets==4.4.1"]
SKIPPED = 77


def rows_of(python, source, arguments, seek):
    """The messages that the adapter sends behind a state."""
    run = subprocess.run([python, "-B", "-m", "weir.hf_datasets", *arguments], capture_output=True, text=True, timeout=200,
                         input=json.dumps({"seek": seek}) + '\n{"more": 100000000}\n',
                         env={**os.environ, "PYTHONPATH": os.path.join(source, "python"), "HF_HUB_OFFLINE": "1"})
    if run.returncode != 0:
        raise SystemExit(f"FAILED: {run.stderr}")
    return [json.loads(line) for line in run.stdout.splitlines()]


def main():
    source, work = sys.argv[1:3]
    python = virtual_environment.interpreter(os.environ.get("WEIR_DATASETS_PYTHON"), os.path.join(work, "datasets-venv"),
                                             PACKAGES, ["-c", "import datasets"], seconds=280)
    if python is None:
        print("SKIPPED: datasets is absent and cannot be installed")
        return SKIPPED
    texts = [f"text {i} " + "ä" * (i % 5) for i in range(50)]
    with tempfile.TemporaryDirectory(prefix="weir-datasets-") as folder:
        path = os.path.join(folder, "rows.jsonl")
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(json.dumps({"text": text}) + "\n" for text in texts)
        arguments = ["json", "--data-files", path, "--column", "text"]
        sent = rows_of(python, source, arguments, None)
        assert sent[0]["hello"] == 1 and sent[-1] == {"end": True}, (sent[0], sent[-1])
        assert [m["text"] for m in sent if "text" in m] == texts
        states = [m["state"] for m in sent if "state" in m]
        for at in (0, 20, 48):
            behind = rows_of(python, source, arguments, states[at])
            assert [m["text"] for m in behind if "text" in m] == texts[at + 1:], at
    print(f"{len(texts)} rows, 3 resumes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
