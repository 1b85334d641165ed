# SPDX-License-Identifier: Apache-2.0
"""A peer of the row pipe_python_us: the time that a further actor adds to each item of a compiled graph of Ray.

$WEIR_BENCH_RAY names the Python that runs this file, one whose packages have `ray[cgraph]` and numpy; without it,
bench/run.py leaves this file out. Without the package `ray` this program has no row and ends with 0.

ray_peer.py --list   prints the id of its row
ray_peer.py [ID...]  prints the row
"""
import importlib.util
import json
import sys
import time

ROW = "ray__pipe_python_us"
SHORT, LONG = 1, 3  # actors of the two chains
IN_FLIGHT = 32      # items, as many as a message to a stage in Python has
ITEMS = 1000
SAMPLES = 5         # pairs of a sample of each chain


def compiled(ray, touch, length):
    """Returns a compiled graph of so many actors in a row."""
    from ray.dag import InputNode
    with InputNode() as node:
        item = node
        for _ in range(length):
            item = ray.remote(touch).remote().on_item.bind(item)
    return item.experimental_compile(_max_inflight_executions=IN_FLIGHT, _max_buffered_results=IN_FLIGHT)


def microseconds(ray, graph, item):
    """Returns the time per item while at most IN_FLIGHT items are on their way."""
    begin, flying = time.perf_counter(), []
    for _ in range(ITEMS):
        if len(flying) == IN_FLIGHT:
            ray.get(flying.pop(0))
        flying.append(graph.execute(item))
    for one in flying:
        ray.get(one)
    return (time.perf_counter() - begin) / ITEMS * 1e6


def measure():
    import numpy as np
    import ray

    class Touch:
        """Copies the first word of an item, as the stage in touch.py does."""
        def on_item(self, x):
            y = np.zeros_like(x)
            y[0] = x[0]
            return y

    ray.init(num_cpus=SHORT + LONG, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    try:
        item = np.arange(8, dtype=np.uint64)
        graphs = [compiled(ray, Touch, length) for length in (SHORT, LONG)]
        for graph in graphs:
            microseconds(ray, graph, item)  # the first items start the actors
        pairs = [[microseconds(ray, graph, item) for graph in graphs] for _ in range(SAMPLES)]
        for graph in graphs:
            graph.teardown()
    finally:
        ray.shutdown()
    short, long = (min(times) for times in zip(*pairs))  # what else runs makes samples longer, never shorter
    return (long - short) / (LONG - SHORT)


def main(words):
    if importlib.util.find_spec("ray") is None:
        return 0
    if words == ["--list"]:
        print(ROW)
        return 0
    value = measure()
    if value <= 0:
        print(f"ray_peer: expected that {LONG} actors take longer than {SHORT}, found {value:.1f} us for each further "
              "actor; measure again while no other program runs", file=sys.stderr)
        return 1
    print(json.dumps({"id": ROW, "value": round(value, 2), "unit": "us", "holds": True}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
