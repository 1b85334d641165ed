# SPDX-License-Identifier: Apache-2.0
"""Rows of one run that compare the engine with the best peer of the same run.

Peers that are installed are measured; figures of those that Debian does not package were taken on
another day, so they are scaled by how clang's OpenMP (libomp) does now against how it did then, graph
by graph. Without libomp they count as they are, and the unit of the row says "unscaled".
"""

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
# A static graph of Taskflow on two workers: nanoseconds per empty task, METG(50 %).
TASKFLOW_EMPTY = {"chain": 25, "indep": 61, "indep_w": 62, "trivial_w8": 24, "stencil_w2": 44,
                  "stencil_w8": 49, "stencil_w16": 45, "fft_w16": 72, "nearest_w16": 66,
                  "random_nearest_w16": 51, "spread_w16": 126, "cholesky_n28": 56, "gemm_n16": 27}
TASKFLOW_METG = {"trivial_w8": 97, "stencil_w2": 655, "stencil_w4": 221, "stencil_w8": 165,
                 "fft_w16": 189, "nearest_w16": 199, "random_nearest_w16": 147, "spread_w16": 280,
                 "cholesky_n28": 147, "gemm_n16": 96}
# The same with one worker, and the upper ends of what libomp took then on every graph.
TASKFLOW_EMPTY_1 = {"chain": 23, "indep": 30, "indep_w": 30, "trivial_w4": 23, "stencil_w1": 23,
                    "stencil_w4": 36, "stencil_w16": 35, "fft_w16": 46, "nearest_w16": 46,
                    "random_nearest_w16": 35, "spread_w16": 69, "cholesky_n28": 43, "gemm_n16": 23}
TASKFLOW_METG_1 = {"trivial_w4": 32, "stencil_w1": 33, "stencil_w2": 49, "stencil_w4": 48, "fft_w16": 63,
                   "nearest_w16": 65, "random_nearest_w16": 48, "spread_w16": 104, "cholesky_n28": 59,
                   "gemm_n16": 34}
LIBOMP_1 = {"empty": 40, "metg": 68}


def compare(name, own, best, most, scaled):
    ratio = own / best
    return {"id": name, "value": round(ratio, 4), "unit": "ratio" if scaled else "unscaled",
            "bar": most, "sense": "<=", "holds": ratio <= most, "peer": round(best, 1)}


def ratio_rows(rows):
    """Rows `ratio_*` for every graph that both the engine and enough of its peers were measured on."""
    values = {r["id"]: r["value"] for r in rows if r["value"]}
    out = []
    for table, kind, most, fixed in ((EMPTY, "empty", 0.8, TASKFLOW_EMPTY), (METG, "metg", 0.6, TASKFLOW_METG)):
        middle = "_" if kind == "empty" else "_metg_"
        for graph, (parsec, nanos, omp) in table.items():
            libomp = values.get(f"libomp{middle}{graph}_2_ns")
            scale = libomp / omp if libomp else 1
            here = [values.get(f"{peer}{middle}{graph}_2_ns") for peer in ("libomp", "openmp", "starpu")]
            best = min([v for v in here if v] + [parsec * scale, nanos * scale])
            own = values.get(f"{kind}_{graph}_2_ns")
            if own:
                out.append(compare(f"ratio_{kind}_{graph}_2", own, best, most, libomp))
            replay = values.get(f"replay_{graph}_2_ns" if kind == "empty" else f"replay_metg_{graph}_2_ns")
            if replay and graph in fixed:
                out.append(compare(f"ratio_{'replay' if kind == 'empty' else 'replay_metg'}_{graph}_2", replay,
                                   fixed[graph] * scale, 1.0, libomp))
    return out + replay_rows_1(values)


def replay_rows_1(values):
    """Replays with one worker against Taskflow's static graphs."""
    out = []
    for table, middle, then in ((TASKFLOW_EMPTY_1, "_", LIBOMP_1["empty"]),
                                (TASKFLOW_METG_1, "_metg_", LIBOMP_1["metg"])):
        for graph, taskflow in table.items():
            replay = values.get(f"replay{middle}{graph}_1_ns")
            libomp = values.get(f"libomp{middle}{graph}_1_ns")
            if replay:
                out.append(compare(f"ratio_replay{middle}{graph}_1", replay,
                                   taskflow * (libomp / then if libomp else 1), 1.0, libomp))
    return out
