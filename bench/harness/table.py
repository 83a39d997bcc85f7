"""Results as text and as Markdown."""

import math

COLUMNS = ("case", "pass", "plan", "Fovea", "rate", "floor", "best peer", "ratio", "peak memory")
PASS = {"forward": "forward", "both": "forward+backward"}


def milliseconds(seconds):
    ms = seconds * 1e3
    return f"{ms:.3f} ms" if ms < 10 else f"{ms:.1f} ms"


def mebibytes(count):
    return f"{count / 2**20:.1f} MiB"


def cells(row):
    best = row.get("best_peer")
    rate = row.get("rate")
    return (row["case"], PASS[row["pass"]], row["plan"], milliseconds(row["seconds"]),
            f"{rate[0]:.1f} {rate[1]}" if rate else "–",
            f"{100 * row['floor_share']:.0f} %" if row.get("floor_share") else "–",
            f"{best} {milliseconds(row['peers'][best]['seconds'])}" if best else "–",
            f"{row['ratio']:.2f}" if best else "–",
            mebibytes(row["peak_bytes"]))


WIDTHS = (29, 17, 9, 11, 15, 6, 26, 6, 12)


def text_line(values):
    padded = [f"{v:<{w}}" if i < 3 or i == 6 else f"{v:>{w}}"
              for i, (v, w) in enumerate(zip(values, WIDTHS))]
    return " ".join(padded).rstrip()


def markdown_line(values):
    return "| " + " | ".join(values) + " |"


def groups(rows):
    """Geometric mean, smallest ratio and its case, for each group and pass that has peers."""
    found = {}
    for row in rows:
        if row.get("ratio"):
            found.setdefault((row["group"], row["pass"]), []).append(row)
    summary = []
    for (group, which), members in found.items():
        worst = min(members, key=lambda r: r["ratio"])
        mean = math.exp(sum(math.log(r["ratio"]) for r in members) / len(members))
        summary.append({"group": group, "pass": which, "cases": len(members), "ratio": mean,
                        "worst": worst["ratio"], "worst_case": worst["case"]})
    return summary


def summary_text(rows):
    lines = ["", "Fovea's speed against the best peer of each case, geometric mean of a group:"]
    for s in groups(rows):
        lines.append(f"  {s['group']:<10} {PASS[s['pass']]:<17} {s['ratio']:7.2f}×   "
                     f"lowest {s['worst']:.2f}× ({s['worst_case']}), {s['cases']} cases")
    return "\n".join(lines) if len(lines) > 2 else ""


def narrow_text(rows):
    """Of 16 bits: beside Fovea's float32, and the largest error of a context beside float64."""
    rows = [row for row in rows if "errors" in row]
    lines = []
    for row in rows:
        errors = "   ".join(f"{label} {error:.1e}" for label, error in row["errors"].items())
        lines.append(f"  {row['case']:<24} {PASS[row['pass']]:<17} "
                     f"{row.get('float32_ratio', math.nan):5.2f}×   {errors}")
    head = "\nFovea's bf16 against its float32, and errors of contexts beside float64:\n"
    return head + "\n".join(lines) + "\n" if lines else ""


def markdown(report):
    machine = report["machine"]
    peers = ", ".join(f"{name} {version}" for name, version in report["peers"].items()) or "none"
    lines = [f"{machine['cpu']}, {machine['threads']} threads, {machine['isa']}; FMA peak "
             f"{machine['flops'] / 1e9:.0f} GFLOP/s. Peers: {peers}.", "",
             markdown_line(COLUMNS), markdown_line(["---"] * 3 + ["---:"] * 3 + ["---"] + ["---:"] * 2)]
    lines += [markdown_line(cells(row)) for row in report["rows"]]
    means = groups(report["rows"])
    if means:
        lines += ["", markdown_line(("group", "pass", "ratio", "lowest", "cases")),
                  markdown_line(["---", "---", "---:", "---:", "---:"])]
        lines += [markdown_line((s["group"], PASS[s["pass"]], f"{s['ratio']:.2f}",
                                 f"{s['worst']:.2f}", str(s["cases"]))) for s in means]
    return "\n".join(lines)
