# SPDX-License-Identifier: BSD-3-Clause
"""torch_nntile.profile(): tasks, tables, Chrome's format, the page."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import torch_nntile
from torch_nntile.errors import InvalidArgumentError, InvalidStateError
from torch_nntile.profiling import events, lines, links, page, report


class _Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(48, 48), torch.nn.Linear(48, 4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


def _step(net: _Net, x: torch.Tensor) -> None:
    net.zero_grad()
    net(x).square().sum().backward()


@pytest.fixture(scope="module")
def profiled(runtime: None) -> Any:
    net, x = _Net().to("nntile"), torch.randn(64, 48, device="nntile")
    for _ in range(2):  # the first one makes plans
        with torch_nntile.profile() as p:
            _step(net, x)
    return p


def test_tasks_are_inside_of_the_block(profiled: Any) -> None:
    p = profiled
    assert p.tasks
    assert p.workers >= 1
    assert all(0 <= t.worker < len(p.worker_names) for t in p.tasks)
    assert p.worker_names[p.workers :] in ([], ["your thread"])
    assert all(0 <= t.start <= t.end <= p.seconds for t in p.tasks)
    assert [t.start for t in p.tasks] == sorted(t.start for t in p.tasks)
    for worker, name in enumerate(p.worker_names):
        if name.startswith("GPU"):
            continue  # only a core runs one at a time
        own = [t for t in p.tasks if t.worker == worker]
        assert all(a.end <= b.start for a, b in pairwise(own))
    busy = sum(t.seconds for t in p.tasks if t.worker < p.workers)
    assert p.idle_seconds == pytest.approx(p.workers * p.seconds - busy)


def test_second_profile_plans_nothing(profiled: Any) -> None:
    stats = profiled.stats
    assert stats.lowerings == 0
    assert stats.graphs == stats.plan_hits > 0
    assert stats.tasks == len(profiled.tasks)


def test_bytes_and_flops_of_a_product() -> None:
    n = 32
    x = torch.randn(n, n, device="nntile")
    torch.mm(x, x)
    with torch_nntile.profile() as p:
        y = torch.mm(x, x)
    assert y.shape == (n, n)
    products = [t for t in p.tasks if t.kernel == "gemm"]
    assert sum(t.flops for t in products) == 2 * n**3
    assert sum(t.bytes for t in products) >= 3 * n * n * 4
    assert {t.op for t in products} == {"matmul"}


def test_function_of_the_host_has_no_flops() -> None:
    x = torch.randn(4, 4, device="nntile")
    with torch_nntile.profile() as p:
        y = torch.linalg.matrix_exp(x)
    host = [t for t in p.tasks if t.kernel == "host"]
    assert host
    assert y.shape == (4, 4)
    assert all(t.flops == 0 for t in host)


def test_modules_forward_and_backward(profiled: Any) -> None:
    found = {(t.module, t.backward) for t in profiled.tasks if t.kernel == "gemm"}
    assert found == {
        ("_Net.layers.0", False),
        ("_Net.layers.0", True),
        ("_Net.layers.1", False),
        ("_Net.layers.1", True),
    }
    fused = {t.module for t in profiled.tasks if t.op.startswith("addmm+tanh")}
    assert fused == {"_Net.layers.0", "_Net.layers.1"}
    assert not torch.nn.modules.module._global_forward_hooks, "hooks stay after the profile"


def test_storages_have_a_kind_and_a_module(runtime: None) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = torch.nn.Linear(8, 32), torch.nn.Linear(32, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(torch.sin(self.first(x)))

    net = Net().to("nntile")
    optimizer = torch.optim.Adam(net.parameters())
    x = torch.ones(16, 8, device="nntile")
    with torch_nntile.profile() as p:
        net(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        half = torch.ones(3, device="nntile")
    del half
    sizes: dict[tuple[str, str], list[int]] = {}
    for s in sorted(p.storages, key=lambda s: s.bytes):
        sizes.setdefault((s.kind, s.module), []).append(s.bytes)
        assert 0 <= s.start <= s.end <= p.seconds
    assert sizes["parameters", "Net.first"] == [4 * 32, 4 * 8 * 32]
    assert sizes["gradients", "Net.last"] == [4 * 4, 4 * 32 * 4]
    assert sizes["optimizer state", "Net.first"][-4:] == [128, 128, 1024, 1024]
    assert 4 * 16 * 32 in sizes["activations", "Net"], "sin of them"
    assert any(s.kind == "others" and s.end == p.seconds and s.bytes == 12 for s in p.storages)
    gradients = [s for s in p.storages if s.kind == "gradients"]
    assert all(0 < s.start < s.end < p.seconds for s in gradients), "freed by zero_grad()"
    page = p._repr_html_()
    for text in ("Memory of tensors by kind", "optimizer state", "Net.last, at most"):
        assert text in page
    with torch_nntile.profile() as empty:
        pass
    assert {s.bytes for s in empty.storages if s.start == 0} >= {1024, 512}


@pytest.mark.parametrize("by", ["op", "module", "kernel", "line"])
def test_summary_adds_up(profiled: Any, by: str) -> None:
    rows = profiled.rows(by)
    assert sum(row.tasks for row in rows) == len(profiled.tasks)
    assert sum(row.share for row in rows) == pytest.approx(1)
    assert [r.seconds for r in rows] == sorted((r.seconds for r in rows), reverse=True)
    lines = profiled.summary(by).splitlines()
    assert lines[0].split() == [by, "calls", "tasks", "ms", "share", "GFLOP/s", "GB/s"]
    assert len(lines) == len(rows) + 2
    assert lines[-1].startswith("idle: ")
    if by == "line":
        assert any(re.search(r"test_profile\.py:\d+", line) for line in lines)
    if by == "op":
        assert sum(row.calls for row in rows if row.name.startswith("addmm+tanh")) == 2


def test_summary_by_an_unknown_column(profiled: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"by must be one of 'op', .*, got 'colour'"):
        profiled.summary(by="colour")


def test_profile_inside_a_profile() -> None:
    x = torch.ones(4, device="nntile")
    with torch_nntile.profile() as p:
        inner = torch_nntile.profile()
        with pytest.raises(RuntimeError, match="profile: a profile is on already"):
            inner.__enter__()
        y = torch.cosh(x)
    assert "cosh" in {t.op for t in p.tasks}, "the inner one ended the outer one"
    assert y.shape == (4,)


def test_results_before_the_end() -> None:
    with torch_nntile.profile() as p, pytest.raises(InvalidStateError, match="it has not ended"):
        p.summary()


def test_error_in_the_block_ends_the_profile() -> None:
    with pytest.raises(ZeroDivisionError), torch_nntile.profile():
        _ = 1 / 0
    table, index = torch.zeros(3, 2, device="nntile"), torch.tensor([5], device="nntile")
    with pytest.raises(IndexError, match="index 5 is out of range"), torch_nntile.profile() as p:
        kept = torch.nn.functional.embedding(index, table)
    assert p.tasks
    del kept
    with torch_nntile.profile() as p:
        pass
    assert p.tasks == []
    assert p.summary().splitlines()[-1].startswith("idle: ")


def test_nothing_is_noted_without_a_profile(profiled: Any) -> None:
    before = len(profiled.tasks)
    torch.ones(5, device="nntile").sinh().cpu()
    with torch_nntile.profile() as p:
        torch.ones(5, device="nntile").cosh()
    assert "sinh" not in {t.op for t in p.tasks}
    assert len(profiled.tasks) == before


def test_graph_mode() -> None:
    x = torch.randn(16, 16, device="nntile")
    torch_nntile.modes.set_mode(1)
    try:
        with torch_nntile.profile() as p:
            y = torch.tanh(x @ x)
            torch_nntile.run_graph()
        assert any("matmul" in t.op for t in p.tasks)
        assert {t.run for t in p.tasks} == {p.tasks[0].run}
        assert all("test_profile.py" in t.line for t in p.tasks)
    finally:
        torch_nntile.modes.set_mode(0)
    assert y.shape == (16, 16)


def test_beside_torch_profiler() -> None:
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as torch_profile

    x = torch.randn(16, 16, device="nntile")
    with torch_profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as other:
        with torch_nntile.profile() as p:
            y = x @ x
        z = x.sinh()
        torch.nntile.synchronize()  # type: ignore[attr-defined]
    assert y.shape == z.shape
    assert [t.op for t in p.tasks if t.kernel == "gemm"] == ["matmul"]
    ours = ("NNTILE", "PrivateUse1")  # the latter with PyTorch up to 2.12
    seen = {e.name for e in other.events() if e.device_type.name in ours}
    assert {"matmul", "sinh"} <= seen, "the end of one profile ended the other"


def test_chrome_trace(profiled: Any, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    profiled.save(path)
    trace = json.loads(path.read_text())
    assert set(trace) == {"traceEvents", "displayTimeUnit"}
    events = trace["traceEvents"]
    for event in events:
        assert {"name", "ph", "pid", "tid", "ts"} <= set(event)
        assert isinstance(event["name"], str)
        assert event["name"]
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert isinstance(event["ts"], (int, float))
        assert event["ph"] in {"M", "X", "C", "s", "f"}
    timed = [e for e in events if e["ph"] != "M"]
    assert [e["ts"] for e in timed] == sorted(e["ts"] for e in timed)
    assert events[: len(events) - len(timed)] == [e for e in events if e["ph"] == "M"]
    spans = [e for e in events if e["ph"] == "X"]
    for event in spans:
        assert isinstance(event["dur"], (int, float))
        assert event["dur"] >= 0
        assert 0 <= event["ts"] + event["dur"] <= profiled.seconds * 1e6 + 1, "not in microseconds"
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {e["tid"] for e in spans} <= set(names)
    assert names[0] == "worker 0"
    assert [names[k] for k in range(len(profiled.worker_names))] == profiled.worker_names
    assert any(name.startswith("host: recording") for name in names.values())
    tasks = [e for e in spans if e["cat"] == "task"]
    longest = max(profiled.tasks, key=lambda t: t.seconds)
    assert len(tasks) == len(profiled.tasks)
    assert max(e["dur"] for e in tasks) == pytest.approx(longest.seconds * 1e6, abs=0.01)
    assert any(e["cat"] == "record" and e["name"] == "aten::addmm" for e in spans)


def test_saving_where_nothing_can_be_written(profiled: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        profiled.save(tmp_path / "no" / "trace.json")


def test_flows_of_the_trace(profiled: Any, tmp_path: Path) -> None:
    """Each begins in the slice of a call and ends in the slice of its task."""
    profiled.save(tmp_path / "trace.json")
    found = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    slices = [e for e in found if e["ph"] == "X"]

    def around(flow: dict[str, Any]) -> list[dict[str, Any]]:
        own = [e for e in slices if (e["pid"], e["tid"]) == (flow["pid"], flow["tid"])]
        return [e for e in own if e["ts"] <= flow["ts"] <= e["ts"] + e["dur"]]

    starts = {e["id"]: e for e in found if e["ph"] == "s"}
    ends = {e["id"]: e for e in found if e["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert len(ends) == len(profiled.tasks)
    for number, end in ends.items():
        start = starts[number]
        assert end["bp"] == "e"
        assert (start["name"], start["cat"]) == (end["name"], end["cat"])
        assert start["ts"] <= end["ts"]
        (task,) = (e for e in around(end) if e["ts"] == end["ts"])
        call = around(start)[-1]
        assert (task["cat"], call["cat"]) == ("task", "record")
        assert task["args"]["module"] == call["args"]["module"]
        if task["name"].startswith("addmm+tanh"):
            assert call["name"] == "aten::addmm"
    parts = [e["args"]["part"] for e in slices if e["name"].startswith("addmm+tanh")]
    assert len(parts) == 2
    assert all(re.fullmatch(r"\d+ of \d+", part) for part in parts)


def test_repr(profiled: Any) -> None:
    assert repr(torch_nntile.profile()) == "<torch_nntile.profile, not ended>"
    text = repr(profiled)
    assert "\n" not in text
    most = profiled.rows("module")[0]
    assert f"{len(profiled.tasks)} tasks in " in text
    assert f"most: {most.name} {most.share:.0%}" in text


def test_shapes_and_the_data_that_calls_share(runtime: None, tmp_path: Path) -> None:
    x, other = torch.rand(24, 24, device="nntile"), torch.rand(24, 24, device="nntile")

    def chain() -> torch.Tensor:
        y, kept = x @ x, []
        for _ in range(3):
            kept.append(other.sin())
            y = y @ x
        torch_nntile.wait()  # so that no sin ends last
        return y @ x

    chain()
    with torch_nntile.profile(record_shapes=True) as p:
        y = chain()
    assert y.shape == (24, 24)
    assert [t.op for t in p.critical_path] == ["matmul"] * 5, "none waited for sin"
    assert [t.start for t in p.critical_path] == sorted(t.start for t in p.critical_path)
    assert p.path().known
    assert {c.shapes for c in p.calls if c.op == "aten::mm"} == {"(24, 24) (24, 24)"}
    p.save(tmp_path / "trace.json")
    found = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {e["args"]["shapes"] for e in found if e["name"] == "sin"} == {"(24, 24)"}
    with torch_nntile.profile() as plain:
        chain()
    assert not plain.path().known
    assert not any(c.shapes for c in plain.calls)
    assert plain.critical_path[-1] == max(plain.tasks, key=lambda t: t.end)


def test_what_is_compiled_stays_compiled_beside_shapes(runtime: None) -> None:
    x = torch.rand(8, 8, device="nntile")
    compiled = torch.compile(lambda x: (x @ x).sinh().tanh(), backend="nntile")
    compiled(x)
    for record in (True, False):
        with torch_nntile.profile(record_shapes=record) as p:
            compiled(x)
        assert not [c.op for c in p.calls if not c.waits], "it ran as Python"


def _task(worker: int, start: float, end: float, run: int, **more: Any) -> events.Task:
    values: dict[str, Any] = {
        "op": "op",
        "kernel": "map",
        "line": "",
        "backward": False,
        "module": "",
    }
    values |= {"node": 0, "task": 0, "bytes": 0, "flops": 0} | more
    return events.Task(worker=worker, start=start, end=end, run=run, **values)


def _call(op: str, start: float, end: float, **more: Any) -> events.Call:
    values: dict[str, Any] = {"line": "", "backward": False, "module": "", "waits": False} | more
    return events.Call(op=op, thread=0, start=start, end=end, **values)


def test_critical_path_of_a_known_chain() -> None:
    calls = [_call(f"aten::{k}", k * 1.0, k + 0.5) for k in range(5)]
    tasks = [
        _task(0, 1, 3, 0, call=0),
        _task(1, 2, 5.5, 1, call=1),  # nobody needs it but the last
        _task(0, 3, 4, 2, call=2),
        _task(0, 6, 8, 3, call=3),
        _task(1, 9, 10, 4, call=4),
    ]
    path = links.critical_path(tasks, calls, {2: {0}, 3: {2}, 4: {1, 3}})
    assert path.tasks == [0, 2, 3, 4]
    assert path.known
    assert path.busy == 2 + 1 + 2 + 1
    # Of the gap from 4 to 6 no task and no call is the reason, nor of that from 8 to 9.
    assert (path.host, path.worker, path.other) == (0, 0, 3)
    by_time = links.critical_path(tasks, calls, None)
    assert by_time.tasks == [1, 3, 4]
    assert not by_time.known
    late = [*calls[:4], _call("aten::4", 8.0, 8.75)]
    assert links.critical_path(tasks, late, {4: {3}}).host == 0.75
    busy = [*tasks[:4], _task(0, 4, 5.5, 9)]
    path = links.critical_path(busy, calls, {2: {0}, 3: {2}})
    assert (path.tasks, path.worker, path.other) == ([0, 2, 3], 1.5, 0.5)
    assert links.critical_path([], [], None).tasks == []


def test_parts_of_a_call_come_before_their_sum() -> None:
    tasks = [
        _task(0, 0, 2, 0, kernel="reduce", task=0, call=0),
        _task(1, 0, 3, 0, kernel="reduce", task=1, call=0),
        _task(0, 4, 5, 0, task=2, call=0),
    ]
    calls = [_call("aten::sum", 0, 1)]
    assert links.critical_path(tasks, calls, {0: set()}).tasks == [1, 2]
    assert links.parts_of(tasks) == [(1, 3), (2, 3), (3, 3)]


def test_steps(runtime: None) -> None:
    net = _Net().to("nntile")
    optimizer = torch.optim.Adam(net.parameters())
    x = torch.randn(16, 48, device="nntile")
    with torch_nntile.profile() as p:
        for _ in range(3):
            _step(net, x)
            optimizer.step()
        x.sum()  # nobody steps after it
    assert len(p.steps) == 3
    assert all(a[1] <= b[0] for a, b in pairwise(p.steps))
    assert all(0 <= start < end <= p.seconds for start, end in p.steps)
    assert page.data(p)["steps"] == [[round(s * 1e9), round(e * 1e9)] for s, e in p.steps]
    calls = [_call("aten::add", k, k + 0.5) for k in range(6)]
    assert events.steps_of(calls, [2.6, 2.7, 4.6], 6) == [(0, 2.7), (3, 4.6)], "two optimizers"
    assert events.steps_of(calls, [], 6) == []


def test_short_lines(tmp_path: Path) -> None:
    folders = ["/lib/python/site-packages/", "/home/user/"]
    assert lines.short_line("/home/user/gpt/model.py:14", folders) == "gpt/model.py:14"
    assert lines.short_line("/lib/python/site-packages/a/b.py:3", folders) == "a/b.py:3"
    assert lines.short_line("/else/where/far/away.py:3", folders) == "far/away.py:3"
    assert lines.short_line("model.py:14", folders) == "model.py:14"
    assert lines.short_line("<string>:1", folders) == "<string>:1"
    assert lines.short_line("", folders) == ""
    assert f"{Path.cwd()}/" in lines.known_folders()


def test_colors_are_far_from_each_other() -> None:
    """In OKLab, where 0.02 is a difference that one just sees; so that a page tells 13 modules apart."""

    def oklab(color: str) -> Any:
        rgb = np.array([int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)])
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        cones = np.array(
            [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.63]]
        )
        to_lab = [[0.2105, 0.7936, -0.0041], [1.978, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]
        return np.array(to_lab) @ np.cbrt(cones @ linear)

    colors = [oklab(color) for color in (*report.PALETTE, "#ffffff", "#16181c", "#b4b4b4")]
    assert len(set(report.PALETTE)) >= 13
    for k, color in enumerate(colors):
        assert all(np.linalg.norm(color - other) > 0.09 for other in colors[:k]), k


class _Page(HTMLParser):
    """Balanced tags, and no resource from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        for name, value in attrs:
            assert name not in {"src", "href"}, (tag, value)
        if tag not in {"meta", "input"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)


def test_what_a_notebook_shows(profiled: Any) -> None:
    text = profiled._repr_html_()
    page = _Page()
    page.feed(text)
    assert page.open == []
    assert "script" not in page.seen
    assert page.seen.count("svg") == 3
    assert page.seen.count("table") == 4
    drawings = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    gantt = ElementTree.fromstring(drawings[0])
    bars = [e for e in gantt.iter() if e.tag.endswith("rect")]
    assert len(bars) == len(profiled.tasks) + len(profiled.calls)
    assert all(90 <= float(bar.get("x", "0")) <= 960 for bar in bars)
    keys = dict(re.findall(r'background: (#[^"]*)"></i>([^<]*)', text))
    longest = profiled.rows("module")[0].name
    assert keys[report.PALETTE[0]] == longest
    assert {bar.get("fill") for bar in bars} <= {*keys, "#ccc", "#678", "#bbb"}


def _data_of(text: str) -> Any:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    return json.loads(found)


def test_page(profiled: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    profiled.html(path)
    text = path.read_text()
    page = _Page()
    page.feed(text)
    assert page.open == []
    assert page.seen.count("table") == 4
    assert page.seen.count("canvas") == 2
    assert "{{" not in text.partition("<script>")[0]
    assert "PyTorch " + torch.__version__ in text
    assert f"{profiled.began:%Y-%m-%d %H:%M}" in text
    data = _data_of(text)
    bars, kinds = data["bars"], data["kinds"]
    assert {len(column) for column in bars.values()} == {len(profiled.tasks + profiled.calls)}
    assert data["rows"][0] == "worker 0"
    assert data["rows"][: len(profiled.worker_names)] == profiled.worker_names
    tasks = [b for b, k in enumerate(bars["kind"]) if kinds[k]["class"] == "task"]
    assert len(tasks) == len(profiled.tasks)
    for b, task in zip(tasks, profiled.tasks, strict=True):
        kind = kinds[bars["kind"][b]]
        assert (kind["op"], kind["module"], kind["bytes"]) == (task.op, task.module, task.bytes)
        assert bars["start"][b] == pytest.approx(task.start * 1e9, abs=1)
        assert bars["length"][b] == pytest.approx(task.seconds * 1e9, abs=2)
        assert 1 <= bars["part"][b] <= kind["parts"]
        call = bars["call"][b]
        assert kinds[bars["kind"][call]]["class"] == "record"
        assert bars["start"][call] <= bars["start"][b]
    path_of_page = [profiled.tasks[b - tasks[0]] for b in data["path"]]
    assert path_of_page == profiled.critical_path
    assert sum(data["memory"]["bytes"]) == 0, "what comes goes"
    assert not [kind["line"] for kind in kinds if kind["line"].startswith("/")]


def test_names_are_escaped_in_the_page() -> None:
    class Odd(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sinh(x)

    Odd.__name__ = "</script><b>&"
    with torch_nntile.profile() as p:
        y = Odd()(torch.ones(3, device="nntile"))
    assert y.shape == (3,)
    assert "<b>&" not in p._repr_html_()
    assert "&lt;b&gt;&amp;" in p._repr_html_()
    text = page.page(p)
    assert "<b>" not in text
    assert Odd.__name__ in {kind["module"] for kind in _data_of(text)["kinds"]}
