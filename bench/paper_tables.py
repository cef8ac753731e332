"""The paper's claims as tables, its figure beside ours. Pure: from the reports of the set's runs to text."""

from collections.abc import Mapping, Sequence

from bench.paper_figures import (
    MB,
    NOT_RUN,
    Form,
    Report,
    Table,
    cell,
    chunk_time,
    count,
    hits,
    in_ms,
    long_waits,
    share,
    size,
    waits,
)
from bench.paper_set import RECOMPUTE_MS, ROOMS_TRACES
from bench.paper_sweep import tail, throttled


def tables(reports: Mapping[str, Report]) -> list[Table]:
    """Everything that docs/paper.md shows of the runs."""
    return [
        _walls(reports),
        _storing(reports),
        _long(reports),
        _forced(reports),
        throttled(reports),
        tail(reports),
        _rooms(reports),
    ]


def _walls(reports: Mapping[str, Report]) -> Table:
    def ours(form: Form) -> str:
        return cell(reports, "plan", form)

    rows = [
        ("a chunk's KV, bf16", "486.6 MB", ours(lambda plan: f"{plan['block_bytes']['bf16'] / MB:.1f} MB")),
        (
            "a chunk's KV, int4",
            "129.4 MB, 26.6 %",
            ours(lambda plan: f"{plan['block_bytes']['int4'] / MB:.1f} MB, {_int4share(plan):.1%}"),
        ),
        ("GPU full of bf16 at chunk", "21", ours(lambda plan: str(plan["spill_chunk"]["gpu_bf16"]))),
        ("host memory full of bf16 at chunk", "60", ours(lambda plan: str(plan["spill_chunk"]["dram_bf16"]))),
        ("host memory full of int4 at chunk", "226", ours(lambda plan: str(plan["spill_chunk"]["dram_int4"]))),
        ("the rotary table ends at chunk", "341", ours(lambda plan: str(plan["position_limit_chunk"]))),
        (
            "the model's word on unseen configurations",
            "spills within one chunk, stalls rightly classed",
            cell(reports, "grid", lambda grid: f"right in {grid['right']} of {grid['configurations']}"),
        ),
    ]
    words = (
        "`server plan` with the budgets that the paper's figures imply; the last row is the real pager in fast mode."
    )
    return Table("The walls, and the analytical model", words, ("", "paper", "ours"), rows)


def _int4share(plan: Report) -> float:
    return plan["block_bytes"]["int4"] / plan["block_bytes"]["bf16"]


def _storing(reports: Mapping[str, Report]) -> Table:
    codec = "codec"
    rows = [
        ("recomputing one block", f"{RECOMPUTE_MS:g} ms", "taken from the paper: it needs the weights and a GPU"),
        (
            "one int4 block read back from NVME; decoded",
            "10.9 ms",
            cell(
                reports,
                "read-one-int4",
                lambda run: f"{in_ms(run['median_wait_ms'])}; {in_ms(run['decode_ms']['p50'])} on the CPU",
            ),
        ),
        (
            "encoding, decoding one block on one core",
            "",
            cell(reports, codec, lambda run: f"{in_ms(_block_ms(run, 'encode'))}, {in_ms(_block_ms(run, 'decode'))}"),
        ),
        (
            "bits a value; error of keys, values",
            "",
            cell(
                reports,
                codec,
                lambda run: f"{run['bits_per_value']:g}; {run['key_rel_rmse']:.1%}, {run['value_rel_rmse']:.1%}",
            ),
        ),
        (
            "three bf16 blocks from NVME to the GPU tier",
            "276 ms",
            cell(reports, "read-three-bf16", lambda run: in_ms(run["median_wait_ms"])),
        ),
        (
            "the same, prefetched: median wait",
            "hidden",
            cell(reports, "prefetch-three-bf16", lambda run: in_ms(run["median_wait_ms"])),
        ),
        (
            "turning recalled keys to new positions",
            "27 ms a chunk",
            cell(
                reports,
                "rotation",
                lambda run: f"{in_ms(run['rotate_ms'])} a block on the {run['device']}, {run['ratio']:g} x memcpy",
            ),
        ),
    ]
    words = "Medians. The paper's are of an RTX 4090; a GPU tier without a GPU is a part of RAM, and the CPU decodes."
    return Table("Storing instead of recomputing", words, ("", "paper", "ours"), rows)


def _block_ms(codec: Report, which: str) -> float:
    return codec["bf16_bytes"] / codec[f"{which}_gbps"] / MB


LONG_ROWS: Sequence[tuple[str, str, Form]] = (
    ("chunks", "3,000", lambda run: f"{run['trace_chunks']:,}"),
    ("waits of more than 0.5 ms (thread kept off its core)", "0", long_waits),
    ("wait: median / p99 / longest", "longest 0.12 ms", waits),
    ("chunk time: p50 / p99", "1,264 ms on average", chunk_time),
    ("process memory, peak", "30.7 GiB", size("rss_peak_bytes")),
    ("process memory a chunk", "flat", size("rss_slope_bytes_per_chunk")),
    ("page cache a chunk", "", size("page_cache_slope_bytes_per_chunk")),
    ("hits on GPU / DRAM / NVME, one a return", "none from NVME", hits),
    ("longest way back to a block that came from NVME", "1,981 chunks", count("longest_return_chunks")),
    ("read", "0", size("bytes_read")),
    ("written", "334 GiB", size("bytes_written")),
    ("blocks forgotten under the NVME budget", "", count("forgotten")),
    ("blocks lost", "", count("lost")),
    ("chunks drawn with an older set (stale)", "", share("stale_share")),
    ("new blocks fetched in time", "", share("fetched_in_time_share")),
)


def _long(reports: Mapping[str, Report]) -> Table:
    runs = ("long-real", "long-fast", "round-trip")
    rows = [(what, paper, *(cell(reports, run, form) for run in runs)) for what, paper, form in LONG_ROWS]
    words = (
        "Policy *live*. The first of ours is at full size with an NVME budget of 25 GB, so that blocks are forgotten. "
        "The round trip comes back to places of up to 1,981 chunks ago (paper: prefetched from NVME, no wait above "
        "0.5 ms)."
    )
    header = ("", "paper", "300 chunks, real bytes", "3,000 chunks", "round trip")
    return Table("Long sessions and round trips", words, header, rows)


FORCED_ROWS: Sequence[tuple[str, str, Form]] = (
    ("chunk time: p50 / p99", "1,255.8 ms; on-demand 4.3 % longer", chunk_time),
    ("waits of more than 0.5 ms (thread kept off its core)", "0 with prefetch", long_waits),
    ("wait: median / p99 / longest", "on-demand 60.2 ms in the median", waits),
    ("hits on GPU / DRAM / NVME, one a return", "all on NVME", hits),
    ("read", "", size("bytes_read")),
    ("chunks drawn with an older set (stale)", "", share("stale_share")),
)


def _forced(reports: Mapping[str, Report]) -> Table:
    runs = ("forced-wait", "forced-live", "forced-on-demand")
    rows = [(what, paper, *(cell(reports, run, form) for run in runs)) for what, paper, form in FORCED_ROWS]
    words = (
        "After each chunk its blocks leave GPU and DRAM, so that every chunk reads its three anew. On-demand chunks "
        f"took {_longer(reports)} longer than prefetching ones in the median."
    )
    return Table("Every recall from NVME", words, ("", "paper", "prefetch, wait", "prefetch, live", "on-demand"), rows)


def _longer(reports: Mapping[str, Report]) -> str:
    if "forced-wait" not in reports:
        return NOT_RUN
    base = reports["forced-wait"]["chunk_ms"]["p50"]
    return cell(reports, "forced-on-demand", lambda run: f"{run['chunk_ms']['p50'] / base - 1.0:.1%}")


def _rooms(reports: Mapping[str, Report]) -> Table:
    forms: Sequence[Form] = (
        count("wanted"),
        hits,
        waits,
        long_waits,
        share("stale_share"),
        share("fetched_in_time_share"),
        size("bytes_written"),
    )
    header = (
        "trace",
        "wanted",
        "hits on GPU / DRAM / NVME, one a return",
        "wait: median / p99 / longest",
        "waits > 0.5 ms",
        "stale",
        "in time",
        "written",
    )
    rows = [(trace, *(cell(reports, trace, form) for form in forms)) for trace in ROOMS_TRACES]
    words = (
        "Walks that the server's own session drew in rooms (`python -m bench record`); what each chunk wanted is what "
        "the model's retrieval named, and only chunks that left a block leave one. Blocks, chunk time and k are rooms' "
        "own, budgets so small that all tiers are used, policy *live*."
    )
    return Table("A world walked in rooms", words, header, rows)
