# SPDX-License-Identifier: Apache-2.0
"""Statuses of the runtime as exceptions, with the runtime's own text."""


class Error(RuntimeError):
    """A call failed. `status` is its number, `name` that of the status, the text says what failed and why."""

    def __init__(self, status, name, message):
        super().__init__(f"{name}: {message}" if message else name)
        self.status, self.name, self.message = status, name, message


class InvalidValue(Error, ValueError):
    pass


class OutOfMemory(Error, MemoryError):
    pass


class NotInitialized(Error):
    pass


class LaunchFailed(Error):
    pass


class ArchMismatch(Error):
    pass


class Unsupported(Error):
    pass


class CollectiveMismatch(Error):
    pass


class DeterminismViolation(Error):
    pass


class Timeout(Error):
    pass


class AbiVersionMismatch(Error):
    pass


class CacheCorrupt(Error):
    pass


# In the order of tessStatus_t, from 1 on.
_BY_STATUS = (InvalidValue, OutOfMemory, NotInitialized, LaunchFailed, ArchMismatch, Unsupported, CollectiveMismatch,
              DeterminismViolation, Timeout, AbiVersionMismatch, CacheCorrupt)


def error_of(status, name, message):
    kind = _BY_STATUS[status - 1] if 1 <= status <= len(_BY_STATUS) else Error
    return kind(status, name, message)


def invalid(message):
    """For what the package itself finds wrong."""
    return InvalidValue(1, "TESS_ERR_INVALID_VALUE", message)
