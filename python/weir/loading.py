# SPDX-License-Identifier: Apache-2.0
"""Loads a file with stages."""
import importlib.util
import os
import sys
import traceback

from .errors import Error, invalid
from .stage import decorated

loading = False  # true while a file is loaded for its stages; a pipeline must not run then


def load(file):
    """Runs a Python file and returns the descriptions of the stage classes that it defines, in their order. The name of its module is
    not `__main__`."""
    global loading
    path = os.path.abspath(file)
    folder, name = os.path.split(path)
    module_name = "weir_file_" + os.path.splitext(name)[0]
    spec = importlib.util.spec_from_file_location(module_name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    sys.path.insert(0, folder)
    loading, before = True, len(decorated)
    try:
        spec.loader.exec_module(module)
    finally:
        loading = False
    found = {}
    for cls in decorated[before:]:
        if cls.__module__ == module_name and "<locals>" not in cls.__qualname__:
            about = cls.__weir__
            other = found.setdefault(about.name, about)
            if other is not about:
                raise Error("already_exists", f"{about.where}: expected a new name, found {about.name!r} at the lines {other.line} and "
                            f"{about.line}")
    if not found:
        raise invalid("expected a class with the decorator weir.stage, found none")
    return list(found.values())


def failure(file, failed):
    """Returns an exception of `load` as values for JSON: code, message, line and traceback."""
    path = os.path.abspath(file)
    if isinstance(failed, SyntaxError) and failed.filename == path:
        return {"code": "invalid_argument", "message": f"expected Python, found a syntax error: {failed.msg}", "line": failed.lineno}
    frames = [f for f in traceback.extract_tb(failed.__traceback__) if f.filename == path]
    line = frames[-1].lineno if frames else None
    if isinstance(failed, Error):
        return {"code": failed.code, "message": failed.message, "line": line}
    if isinstance(failed, FileNotFoundError) and not frames:
        return {"code": "not_found", "message": "expected a file, found none", "line": None}
    said = traceback.format_exception_only(type(failed), failed)[-1].strip()
    return {"code": "invalid_argument", "message": f"expected Python that runs, found {said}", "line": line,
            "traceback": "".join(traceback.format_exception(failed))}
