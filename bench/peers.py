# SPDX-License-Identifier: Apache-2.0
"""Rows of one run that compare the engine with the best peer of the same run.

Peers that are installed are measured; gcc's OpenMP counts where it is no faster than on its own chain,
because it runs other tasks where they are created, without a look at dependencies. Figures of those that Debian does not package were taken on
another day, so they are scaled by how clang's OpenMP (libomp) does now against how it did then, graph
by graph. Without libomp they count as they are, and the unit of the row says "unscaled".
"""
import re

# Nanoseconds per empty task on two workers, then: PaRSEC, Nanos6 with discrete dependencies, libomp.
EMPTY = {
    "chain": (199, 206, 390), "indep": (400, 164, 56), "indep_w": (1789, 253, 129),
    "trivial_w8": (188, 209, 346), "stencil_w2": (273, 320, 497), "stencil_w8": (266, 471, 481),
    "stencil_w16": (277, 507, 492), "fft_w16": (267, 387, 474), "nearest_w16": (349, 719, 581),
    "random_nearest_w16": (235, 331, 424), "spread_w16": (335, 487, 623),
    "cholesky_n28": (541, 395, 433), "gemm_n16": (1047, 413, 390),
}
# METG(50 %) on two workers, then: PaRSEC, Nanos6, the least of libomp's rounds.
METG = {
    "trivial_w8": (971, 708, 1369), "stencil_w2": (20200, 1685, 1955), "stencil_w4": (2134, 1525, 1847),
    "stencil_w8": (1351, 1404, 1895), "fft_w16": (1484, 1377, 1812), "nearest_w16": (1572, 1947, 2397),
    "random_nearest_w16": (1389, 1169, 1697), "spread_w16": (1827, 2145, 2465),
    "cholesky_n28": (2371, 2455, 1700), "gemm_n16": (3492, 2128, 1555),
}
# With one worker: the most that libomp took then on any graph.
LIBOMP_1 = {"empty": 40, "metg": 68}

REPLAY = re.compile(r"replay_(metg_)?(.+)_([12])_ns")


def compare(name, own, best, most, scaled):
    ratio = own / best
    return {"id": name, "value": round(ratio, 4), "unit": "ratio" if scaled else "unscaled",
            "bar": most, "sense": "<=", "holds": ratio <= most, "peer": round(best, 1)}


def ratio_rows(rows):
    """Rows `ratio_*` for every graph that both the engine and enough of its peers were measured on."""
    values = {r["id"]: r["value"] for r in rows if r["value"]}
    out = []
    for table, kind, most in ((EMPTY, "empty", 0.8), (METG, "metg", 0.6)):
        middle = middle_of(kind)
        for graph, (parsec, nanos, omp) in table.items():
            libomp = values.get(f"libomp{middle}{graph}_2_ns")
            scale = libomp / omp if libomp else 1
            here = [values.get(f"{peer}{middle}{graph}_2_ns") for peer in ("libomp", "openmp", "starpu")]
            if here[1] and here[1] < values.get(f"openmp{middle}chain_2_ns", 0):
                here[1] = None
            best = min([v for v in here if v] + [parsec * scale, nanos * scale])
            own = values.get(f"{kind}_{graph}_2_ns")
            if own:
                out.append(compare(f"ratio_{kind}_{graph}_2", own, best, most, libomp))
    return out + [replay_row(r, values) for r in rows if r["value"] and r["peer"] and REPLAY.fullmatch(r["id"])]


def middle_of(kind):
    return "_" if kind == "empty" else "_metg_"


def replay_row(row, values):
    """A replay beside its peer, which is a static graph of Taskflow."""
    metg, graph, workers = REPLAY.fullmatch(row["id"]).groups()
    kind = "metg" if metg else "empty"
    libomp = values.get(f"libomp{middle_of(kind)}{graph}_{workers}_ns")
    then = LIBOMP_1[kind] if workers == "1" else {"empty": EMPTY, "metg": METG}[kind][graph][2]
    return compare("ratio_" + row["id"].removesuffix("_ns"), row["value"],
                   row["peer"] * (libomp / then if libomp else 1), 1.0, libomp)
