#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The prose demo. CORPUS=path takes another text: a file or a folder.
exec python3 "$(dirname "$0")/demo.py" "$@"
