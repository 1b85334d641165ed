#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the prose demo. CORPUS=path selects another text, a file or a folder.
exec python3 "$(dirname "$0")/demo.py" "$@"
