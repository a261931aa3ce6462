# SPDX-License-Identifier: BSD-3-Clause
"""Bad input: PyTorch's exception at the user's line, clear words, no hang, and the next step works."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from parity import runtime_mode
from torch import Tensor
from torch.nn import functional as F

import torch_nntile
from torch_nntile import fallback

BOTH = pytest.mark.parametrize("mode", ["eager", "graph"])


def on_device(*shape: int) -> torch.Tensor:
    return torch.ones(shape, device="nntile")


def works() -> bool:
    """Whether the next step works."""
    x = on_device(3).requires_grad_()
    (x * 2).sum().backward()
    return bool(x.grad.tolist() == [2.0] * 3)


SHAPES: dict[str, tuple[Callable[[str], object], tuple[str, ...]]] = {
    "add": (lambda d: torch.ones(2, 3, device=d) + torch.ones(4, device=d), ("3", "4")),
    "mm": (
        lambda d: torch.ones(2, 3, device=d) @ torch.ones(4, 5, device=d),
        ("2x3", "4x5"),
    ),
    "bmm": (lambda d: torch.bmm(torch.ones(2, 3, 4, device=d), torch.ones(3, 4, 5, device=d)), ()),
    "linear": (
        lambda d: F.linear(torch.ones(2, 3, device=d), torch.ones(5, 4, device=d)),
        ("2x3",),
    ),
    "cat": (
        lambda d: torch.cat([torch.ones(2, 3, device=d), torch.ones(2, 4, device=d)]),
        ("3", "4"),
    ),
    "in place": (lambda d: torch.ones(3, device=d).add_(torch.ones(2, 3, device=d)), ("3",)),
    "sum": (lambda d: torch.ones(2, device=d).sum(3), ("3",)),
    "sum twice": (lambda d: torch.ones(2, device=d).sum((0, 0)), ()),
    "amax of nothing": (lambda d: torch.ones(0, device=d).amax(0), ()),
    "softmax": (lambda d: torch.ones(2, device=d).softmax(2), ("2",)),
    "layer_norm": (lambda d: F.layer_norm(torch.ones(2, 3, device=d), (4,)), ("4",)),
    "nll_loss": (
        lambda d: F.nll_loss(
            torch.ones(2, 3, device=d), torch.zeros(4, dtype=torch.long, device=d)
        ),
        ("2", "4"),
    ),
    "view": (lambda d: torch.ones(2, 3, device=d).view(4), ("4",)),
    "copy_": (lambda d: torch.ones(2, 3, device=d).copy_(torch.ones(4, device=d)), ("3", "4")),
    "glu": (lambda d: F.glu(torch.ones(2, 3, device=d)), ("dimension 1", "3")),
    "glu of a number": (lambda d: F.glu(torch.ones((), device=d)), ("scalars",)),
    "glu_backward": (
        lambda d: torch.ops.aten.glu_backward(
            torch.ones(2, 1, device=d), torch.ones(2, 3, device=d), -1
        ),
        ("dimension 1", "3"),
    ),
    "glu_backward of a number": (
        lambda d: torch.ops.aten.glu_backward(
            torch.ones((), device=d), torch.ones((), device=d), 0
        ),
        ("0-dimensional",),
    ),
    "glu of no dim": (lambda d: F.glu(torch.ones(2, 4, device=d), 2), ("2",)),
    "mse_loss": (
        lambda d: F.mse_loss(torch.ones(2, 3, device=d), torch.ones(2, 2, device=d)),
        ("3", "2"),
    ),
    "addmm": (
        lambda d: torch.addmm(
            torch.ones(7, device=d), torch.ones(2, 3, device=d), torch.ones(3, 5, device=d)
        ),
        ("7", "5"),
    ),
}


@BOTH
@pytest.mark.parametrize("name", SHAPES)
def test_shape_mismatch(name: str, mode: str) -> None:
    call, words = SHAPES[name]
    with pytest.raises(Exception) as expected:  # noqa: PT011 - PyTorch decides
        call("cpu")
    with runtime_mode(mode):
        with pytest.raises(expected.type) as found:
            call("nntile")
        # PyTorch's words, perhaps after the name of the op. The shapes of copy_ are named otherwise.
        assert str(found.value).endswith(str(expected.value)) or name == "copy_"
        for word in words:
            assert word in str(found.value)
        assert works()


EMPTY: dict[str, Callable[[Tensor], object]] = {
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "max of a dim": lambda x: x.max(0),
    "min of a dim": lambda x: x.min(0),
    "amax": lambda x: x.amax(),
    "argmax": lambda x: x.argmax(),
    "inf norm": lambda x: x.norm(float("inf")),
    "-inf norm of a dim": lambda x: torch.linalg.vector_norm(x, -float("inf"), 0),
    "negative norm": lambda x: torch.linalg.vector_norm(x, -1),
}


@pytest.mark.parametrize("name", EMPTY)
def test_of_no_elements(name: str) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011 - PyTorch decides
        EMPTY[name](torch.ones(0, 2))
    with pytest.raises(expected.type) as found:
        EMPTY[name](torch.ones(0, 2, device="nntile"))
    assert str(found.value) == str(expected.value)
    assert works()


DTYPES: dict[str, Callable[[str], object]] = {
    "mm": lambda d: torch.ones(2, 2, device=d) @ torch.ones(2, 2, device=d, dtype=torch.float64),
    "bitwise": lambda d: torch.ones(2, device=d) & torch.ones(2, device=d),
    "mean": lambda d: torch.ones(2, device=d, dtype=torch.int64).mean(),
    "in place": lambda d: torch.ones(2, device=d, dtype=torch.int32).add_(torch.ones(2, device=d)),
    "embedding": lambda d: F.embedding(torch.ones(2, device=d), torch.ones(2, 2, device=d)),
    "nll_loss": lambda d: F.nll_loss(torch.ones(2, 3, device=d), torch.ones(2, device=d)),
    "nll_loss of images": lambda d: F.nll_loss(
        torch.ones(2, 3, 4, 4, device=d), torch.ones(2, 4, 4, device=d, dtype=torch.int32)
    ),
    "nll_loss_backward": lambda d: torch.ops.aten.nll_loss_backward(
        *(torch.ones((), device=d), torch.ones(2, 3, device=d)),
        torch.ones(2, device=d, dtype=torch.int16),
        *(None, 1, -100, torch.ones((), device=d)),
    ),
    "softmax": lambda d: torch.ones(2, device=d, dtype=torch.int64).softmax(0),
    "neg": lambda d: -torch.ones(2, device=d, dtype=torch.bool),
    "sub": lambda d: (
        torch.ones(2, device=d, dtype=torch.bool) - torch.ones(2, device=d, dtype=torch.bool)
    ),
}


@pytest.mark.parametrize("name", DTYPES)
def test_dtype_mismatch(name: str) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011 - PyTorch decides
        DTYPES[name]("cpu")
    with pytest.raises(expected.type) as found:
        DTYPES[name]("nntile").cpu()
    assert str(found.value) == str(expected.value)
    assert works()


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: a + b,
        lambda a, b: a @ b,
        lambda a, b: torch.cat([a, b]),
        lambda a, b: a.add_(b),
        lambda a, b: torch.where(a > 0, a, b),
        lambda a, b: F.linear(a, b),
        lambda a, b: torch.add(a, a, out=b),
    ],
    ids=["add", "mm", "cat", "add_", "where", "linear", "out"],
)
def test_device_mismatch(call: Callable[..., object]) -> None:
    a, b = on_device(2, 2), torch.ones(2, 2)
    with pytest.raises(RuntimeError, match=r"cpu") as found:
        call(a, b)
    assert "nntile" in str(found.value)
    assert works()


MIXED: dict[str, Callable[[Tensor, Tensor], object]] = {
    "index": lambda x, c: c[x[0].long()],
    "mask": lambda x, c: c[x > 0],
    "index put": lambda x, c: c.index_put((x[0].long(),), torch.ones(2)),
    "value put": lambda x, c: x.index_put((x[0].long(),), c),
    "masked_select": lambda x, c: x.masked_select(c > 0),
    "batch norm": lambda x, c: torch.nn.BatchNorm1d(2).to("nntile")(c),
    "histc": lambda x, c: torch.histc(x, out=c),
    "nonzero": lambda x, c: torch.nonzero(x, out=torch.empty((), dtype=torch.int64)),
    "bincount": lambda x, c: torch.bincount(x[0].long(), c[0]),
}


@pytest.mark.parametrize("name", MIXED)
def test_compositions_of_mixed_devices(name: str) -> None:
    with pytest.raises(RuntimeError, match=r"Expected all tensors to be on the same device.* cpu!"):
        MIXED[name](on_device(2, 2), torch.ones(2, 2))
    assert works()


def test_indices_may_be_on_the_cpu() -> None:
    x = on_device(4, 2)
    assert x[torch.tensor([0, 2])].shape == (2, 2)
    x[torch.tensor([True, False, True, True])] = torch.tensor(3.0)
    assert x.sum().item() == 3 * 6 + 2


NAMES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "nll_loss: ": lambda x, i: F.nll_loss(x, i, weight=torch.ones(3, device="nntile")),
    "scatter: ": lambda x, i: x.scatter(0, i.view(1, 3), 1.0),
    "gather: ": lambda x, i: x.gather(0, i.view(1, 3)),
}


@pytest.mark.parametrize("name", NAMES)
def test_an_error_of_a_task_names_the_op_and_not_a_part_of_it(name: str) -> None:
    with pytest.raises((RuntimeError, IndexError), match=f"^{name}(target|index) 9 is out of"):
        NAMES[name](on_device(3, 3), torch.tensor([0, 9, 1], device="nntile")).cpu()


@BOTH
@pytest.mark.parametrize("bad", [5, -1, 2**40])
def test_label_out_of_range(mode: str, bad: int) -> None:
    labels = torch.tensor([0, bad, 2], device="nntile")
    with runtime_mode(mode):
        loss = F.cross_entropy(on_device(3, 5), labels)
        with pytest.raises(IndexError, match=rf"nll.*{bad}.*5"):
            loss.item()
        assert works()


@BOTH
def test_index_out_of_range(mode: str) -> None:
    with runtime_mode(mode):
        found = F.embedding(torch.tensor([1, 9], device="nntile"), on_device(4, 2))
        with pytest.raises(IndexError, match=r"embedding.*9.*4"):
            found.cpu()
        assert works()


def test_error_of_a_task_is_raised_by_wait_too() -> None:
    kept = F.embedding(torch.tensor([7], device="nntile"), on_device(4, 2))
    with pytest.raises(IndexError, match="embedding"):
        torch_nntile.wait()
    assert kept.shape == (1, 2)
    torch_nntile.wait()
    assert works()


TASKS: dict[str, tuple[type[Exception], Callable[[], torch.Tensor]]] = {
    "embedding": (
        IndexError,
        lambda: F.embedding(torch.tensor([7], device="nntile"), on_device(4, 2)),
    ),
    "integer division": (
        RuntimeError,
        lambda: torch.tensor([4], device="nntile") // torch.tensor([0], device="nntile"),
    ),
    "gather": (
        RuntimeError,
        lambda: on_device(3).gather(0, torch.tensor([9], device="nntile")),
    ),
    "index_select": (
        IndexError,
        lambda: on_device(3).index_select(0, torch.tensor([9], device="nntile")),
    ),
    "on the host": (RuntimeError, lambda: torch.linalg.cholesky(-torch.eye(3, device="nntile"))),
}
WAITS: dict[str, Callable[[torch.Tensor], object]] = {
    "cpu": lambda found: found.cpu(),
    "wait": lambda found: torch_nntile.wait(),
    "synchronize": lambda found: torch.nntile.synchronize(),
    "accelerator": lambda found: torch.accelerator.synchronize(),
}


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("name", TASKS)
def test_error_of_a_task_has_one_class_wherever_it_is_raised(name: str, wait: str) -> None:
    error, call = TASKS[name]
    with pytest.raises(error) as found:
        WAITS[wait](call())
    assert not isinstance(found.value, ValueError)
    assert works()


NOT_A_NUMBER = torch.full((3, 3), float("nan"))
FLOAT8 = torch.ones(16, 16).to(torch.float8_e4m3fn)


def scaled_product(device: str, scale: int, bias: int) -> torch.Tensor:
    """What its arguments are worth is asked by the CPU's kernel, or, of some, by Meta's."""
    a, b = FLOAT8.to(device), FLOAT8.t().to(device)
    scales, one = [torch.ones(scale, device=device)], [torch.ones(1, device=device)]
    added = torch.ones(bias, device=device)
    return torch._scaled_mm_v2(  # type: ignore[attr-defined]
        a, b, scales, [0], [0], one, [0], [0], added, torch.float32, [], False
    )


KERNELS: dict[str, Callable[[str], torch.Tensor]] = {
    "svd": lambda device: torch.linalg.svdvals(NOT_A_NUMBER.to(device)),
    "eigh": lambda device: torch.linalg.eigh(NOT_A_NUMBER.to(device))[0],
    "cholesky": lambda device: torch.linalg.cholesky(-torch.eye(3, device=device)),
    "scale": lambda device: scaled_product(device, 3, 16),
    "bias": lambda device: scaled_product(device, 1, 3),
}


@BOTH
@pytest.mark.parametrize("name", KERNELS)
def test_an_error_of_a_kernel_on_the_host_has_its_class(name: str, mode: str) -> None:
    def run(device: str, then: Callable[[torch.Tensor], object]) -> type[Exception]:
        try:
            then(KERNELS[name](device))
        except Exception as error:
            return type(error)
        raise AssertionError(f"no error on {device}")

    expected = run("cpu", torch.Tensor.cpu)
    with runtime_mode(mode):
        assert run("nntile", torch.Tensor.cpu) is expected
        assert issubclass(run("nntile", lambda found: (torch_nntile.wait(), found.cpu())), expected)
    assert works()


def test_label_out_of_range_does_not_stop_training() -> None:
    model = torch.nn.Linear(4, 3).to("nntile")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for labels, fails in (([0, 1], False), ([0, 3], True), ([2, 1], False)):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(on_device(2, 4)), torch.tensor(labels, device="nntile"))
        if fails:
            with pytest.raises(IndexError):
                loss.item()
        else:
            loss.backward()
            optimizer.step()
            assert loss.item() > 0


@BOTH
def test_what_a_failed_op_should_have_made_is_lost_and_nothing_else(mode: str) -> None:
    labels = torch.tensor([0, 9], device="nntile")
    model = torch.nn.Linear(4, 3).to("nntile")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    before = model.weight.detach().cpu()
    with runtime_mode(mode):
        loss = F.cross_entropy(model(on_device(2, 4)), labels)
        loss.backward()
        optimizer.step()
        other = on_device(3) + 1
        torch_nntile.run_graph()
        with pytest.raises(IndexError, match="9"):
            torch_nntile.wait()
        assert other.tolist() == [2.0] * 3
        for lost in (loss, loss * 2, model.weight.grad):
            with pytest.raises(RuntimeError, match=r"never computed.*target 9"):
                lost.cpu()
        assert torch.equal(model.weight.detach().cpu(), before)
        # New data in the same memory is as good as any.
        loss.data.fill_(3)
        assert loss.item() == 3
        assert works()


@BOTH
@pytest.mark.parametrize(
    "call",
    [
        lambda x, lost: x + lost[0, 0],
        lambda x, lost: x.index_add(0, lost[0].long(), torch.ones(2, device="nntile")),
    ],
    ids=["map", "table"],
)
def test_a_result_in_the_memory_of_an_operand_is_lost_as_well(
    mode: str, call: Callable[..., torch.Tensor]
) -> None:
    """Nobody has the operand any more; its data is not the result's. What is updated stays."""
    with runtime_mode(mode):
        operands = [torch.zeros(4, device="nntile")]
        updated = torch.zeros(4, device="nntile")
        assert operands[0].sum() + updated.sum() == 0  # they are stored
        lost = F.embedding(torch.tensor([7], device="nntile"), torch.ones(4, 2, device="nntile"))
        found = call(operands.pop(), lost)
        updated.add_(found)
        with pytest.raises(IndexError, match="embedding"):
            found.cpu()
        with pytest.raises(RuntimeError, match="never computed"):
            found.cpu()
        assert updated.tolist() == [0] * 4


@BOTH
def test_a_host_kernel_never_sees_lost_indices(mode: str) -> None:
    with runtime_mode(mode):
        lost = F.embedding(
            torch.tensor([7], device="nntile"), torch.ones(4, 2, device="nntile")
        ).long()
        found = torch.zeros(4, device="nntile").index_add(0, lost.flatten(), on_device(2))
        with pytest.raises(IndexError, match="embedding"):
            found.cpu()
        with pytest.raises(RuntimeError, match="never computed"):
            found.cpu()


@BOTH
@pytest.mark.parametrize("write", [lambda y: y[0].fill_(1), lambda y: y[:, 1].copy_(y[:, 0])])
def test_a_write_to_a_part_of_lost_data_does_not_define_the_rest(
    mode: str, write: Callable[[torch.Tensor], object]
) -> None:
    with runtime_mode(mode):
        table = torch.ones(4, 2, device="nntile")
        rows = F.embedding(torch.tensor([1, 7], device="nntile"), table).exp()
        write(rows)
        with pytest.raises(IndexError, match="embedding"):
            rows.cpu()
        with pytest.raises(RuntimeError, match=r"never computed.*index 7"):
            rows.cpu()
        with pytest.raises(RuntimeError, match=r"never computed.*index 7"):
            (rows + 1).cpu()
        assert works()


@BOTH
def test_integer_division_by_zero(mode: str) -> None:
    a = torch.tensor([4, 3], device="nntile")
    with runtime_mode(mode):
        found = a // torch.tensor([2, 0], device="nntile")
        with pytest.raises(RuntimeError, match=r"(?i)div.*zero|zero.*div|divisor"):
            found.cpu()
        assert works()


@pytest.fixture
def no_fallback() -> Iterator[None]:
    fallback.set_cpu_fallback(False)
    yield
    fallback.set_cpu_fallback(True)


@pytest.mark.usefixtures("no_fallback")
def test_an_op_without_a_row_is_named() -> None:
    with pytest.raises(NotImplementedError, match=r"aten::_unique2"):
        on_device(3).unique()
    assert works()


def test_an_op_without_a_row_runs_on_the_host_and_is_reported() -> None:
    torch_nntile.reset_fallback_report()
    assert on_device(4).unique().tolist() == [1.0]
    (row,) = [r for r in torch_nntile.fallback_report() if r.overload == "aten::_unique2"]
    assert row.calls == 1
    torch_nntile.reset_fallback_report()
    assert torch_nntile.fallback_report() == []


def test_a_host_kernel_that_fails() -> None:
    found = torch.linalg.cholesky_ex(-torch.eye(3, device="nntile"))  # reports, does not raise
    assert found.info.item() == 1
    x = on_device(3)
    with pytest.raises(RuntimeError):
        torch.linalg.cholesky(-torch.eye(3, device="nntile")).cpu()
    assert x.sum().item() == 3
    assert works()
