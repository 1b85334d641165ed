# SPDX-License-Identifier: Apache-2.0
"""Stages of pipelines in Python, and pipelines from Python. The section "Stages in Python" of docs/pipelines.md explains both."""
from .errors import Error
from .pipelines import Node, Pipeline, pipeline
from .stage import nothing_yet, out, setting, skip, stage, state

__all__ = ["Error", "Node", "Pipeline", "nothing_yet", "out", "pipeline", "setting", "skip", "stage", "state"]
