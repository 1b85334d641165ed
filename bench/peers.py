# SPDX-License-Identifier: Apache-2.0
"""Rows of one run that compare the engine and pipelines with the best peer of the same run.

Peers are the rows of other runtimes on the same graphs: those that Debian packages, and the programs of the folder
in $WEIR_BENCH_PEERS. A row `ratio_*` has a verdict only if at least one peer was measured in the same run. If none
was, the row shows the figure that was measured on another machine and is not judged.

The rows of pipelines are `PEER__pipe_*` for every peer, and `PIPES` names those with which a ratio compares.
"""
import fnmatch
import re

# A peer that discovers dependencies while tasks are submitted, as the engine does. gcc's OpenMP counts on a graph
# only where it is no faster than on its own chain: elsewhere it runs tasks where they are created, without a look
# at dependencies.
DISCOVERING = ("libomp", "openmp", "starpu")
# A peer whose graph is built before it runs, as a captured graph is.
STATIC = ("tbb_flow",)

OWN = re.compile(r"(?P<replay>replay_)?(?P<kind>empty_|metg_)?(?P<graph>[a-z0-9_]+)_(?P<workers>[12])_ns")
PIPE = "__pipe_"
# Ratios of pipelines: name, own row, peers whose best row counts (a pattern), limit, sense, and the peer's figure on
# another machine. A rate is the inverse of a time, so the ratio of rates has the peer's time above.
PIPES = (
    ("pipe_hop_ratio_taskflow", "pipe_hop_ns", "taskflow", 1, "<=", 15),
    ("pipe_hop_ratio_tbb", "pipe_hop_ns", "tbb_serial", 0.5, "<=", 40),
    ("pipe_item_ratio", "pipe_item_ns", "*", 0.8, "<=", 86),
    ("pipe_task_hop_2_ratio", "pipe_task_hop_2_ns", "tbb_flow", 1.3, "<=", 98),
    ("pipe_work_ratio_2", "pipe_work_2_us", "*", 1, ">=", None),
    # A stage in Python beside a further actor in a compiled graph of Ray.
    ("pipe_python_ratio", "pipe_python_us", "ray", 0.05, "<=", 72),
)
LIMITS = {"empty": 0.8, "metg": 0.6, "replay_empty": 1.0, "replay_metg": 1.0}


def further_peers(ids):
    """(names of peers that discover dependencies, names of peers with static graphs) among ids of $WEIR_BENCH_PEERS.

    Such an id is `PEER__GRAPH_WORKERS_ns` or `PEER__metg_GRAPH_WORKERS_ns`; PEER begins with `static_` if its graph is
    built before it runs.
    """
    names = sorted({i.split("__")[0] for i in ids if "__" in i and PIPE not in i})
    return ([n for n in names if not n.startswith("static_")], [n for n in names if n.startswith("static_")])


def split(name):
    """(is a replay, "empty" or "metg", graph, workers) of an id of the engine, or None."""
    match = OWN.fullmatch(name)
    if not match or not (match["replay"] or match["kind"]):
        return None
    return bool(match["replay"]), (match["kind"] or "empty_").rstrip("_"), match["graph"], match["workers"]


def peer_values(rows, names, kind, graph, workers):
    """[(id, row)] of the peers of these names on a graph."""
    metg = "metg_" if kind == "metg" else ""
    found = []
    for peer in names:
        row = rows.get(f"{peer}_{metg}{graph}_{workers}_ns") or rows.get(f"{peer}__{metg}{graph}_{workers}_ns")
        if not row or not row["value"]:
            continue
        chain = rows.get(f"{peer}_{metg}chain_{workers}_ns")
        if peer == "openmp" and chain and chain["value"] and row["value"] < chain["value"]:
            continue
        found.append(row)
    return found


def enough_quiet(row):
    return row.get("samples") is None or row["samples"]["enough"]


def ratio_row(own, replay, kind, graph, workers, rows, names):
    """The engine's row beside the best peer of this run, or None if there is nothing to compare with."""
    name = f"ratio_{'replay_' if replay else ''}{'' if replay and kind == 'empty' else kind + '_'}{graph}_{workers}"
    there = peer_values(rows, names, kind, graph, workers)
    best = min(there, key=lambda r: r["value"]) if there else None
    reference = best["value"] if best else own.get("elsewhere")
    if not reference:
        return None
    judged = best is not None and enough_quiet(own) and enough_quiet(best)
    limit = LIMITS[("replay_" if replay else "") + kind] if judged else None
    ratio = own["value"] / reference
    return {"id": name, "value": round(ratio, 4), "unit": "ratio", "bar": limit, "sense": "<=" if judged else None,
            "holds": limit is None or ratio <= limit, "peer": best["value"] if best else None,
            "elsewhere": None if best else reference, "samples": own.get("samples")}


def pipe_row(name, own, pattern, limit, sense, elsewhere, rows):
    """The row of pipelines beside the best peer of this run, or beside a figure of another machine, or None."""
    mine = rows.get(own)
    if not mine or not mine["value"]:
        return None
    there = [r for i, r in rows.items() if fnmatch.fnmatchcase(i, f"{pattern}__{own}") and r["value"]]
    best = min(there, key=lambda r: r["value"]) if there else None
    reference = best["value"] if best else elsewhere
    if not reference:
        return None
    ratio = mine["value"] / reference if sense == "<=" else reference / mine["value"]
    judged = best is not None and enough_quiet(mine) and enough_quiet(best)
    holds = not judged or (ratio <= limit if sense == "<=" else ratio >= limit)
    return {"id": name, "value": round(ratio, 4), "unit": "ratio", "bar": limit if judged else None,
            "sense": sense if judged else None, "holds": holds, "peer": best["value"] if best else None,
            "elsewhere": None if best else reference, "samples": mine.get("samples")}


def ratio_rows(rows):
    """Rows `ratio_*` for every graph of the engine that has a peer, and `pipe_*_ratio*` for pipelines."""
    by_id = {r["id"]: r for r in rows}
    pipes = [pipe_row(*one, by_id) for one in PIPES]
    discovering, static = further_peers(by_id)
    out = []
    for own in rows:
        parts = split(own["id"])
        if not parts or not own["value"]:
            continue
        replay, kind, graph, workers = parts
        if not replay and workers == "1":
            continue  # the engine's rows with one worker have bars of their own
        names = (*STATIC, *static) if replay else (*DISCOVERING, *discovering)
        row = ratio_row(own, replay, kind, graph, workers, by_id, names)
        out += [row] if row else []
    return out + [row for row in pipes if row]
