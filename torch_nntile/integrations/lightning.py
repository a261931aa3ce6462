# SPDX-License-Identifier: BSD-3-Clause
"""Lightning on the device: an accelerator and a strategy, for Trainer and for Fabric.

    import torch_nntile.integrations.lightning
    trainer = lightning.Trainer(accelerator="nntile", strategy="nntile")

Importing this module registers both under that name. Both are needed: for an accelerator that is
not its own, Lightning takes its strategy of the CPU, and this raises.

Several processes, one device each, are started by torchrun, for this Trainer:

    trainer = lightning.Trainer(accelerator="nntile", strategy="nntile_ddp", devices=2)
"""

from __future__ import annotations

from typing import Any

import torch
from lightning.fabric.accelerators import ACCELERATOR_REGISTRY
from lightning.fabric.plugins import MixedPrecision as FabricMixedPrecision
from lightning.fabric.strategies import STRATEGY_REGISTRY
from lightning.fabric.strategies.single_device import SingleDeviceStrategy as FabricSingleDevice
from lightning.pytorch import Callback, accelerators, strategies
from lightning.pytorch.plugins import MixedPrecision

from torch_nntile import _c
from torch_nntile.errors import InvalidArgumentError
from torch_nntile.integrations.loops import Steps
from torch_nntile.memory import memory_stats

__all__ = [
    "NntileAccelerator",
    "NntileCallback",
    "NntileDdpStrategy",
    "NntileFabricStrategy",
    "NntileStrategy",
]


class NntileAccelerator(accelerators.Accelerator):
    """The one device, for Trainer and for Fabric."""

    def setup_device(self, device: torch.device) -> None:
        """Raises ValueError if Lightning took another device: the strategy was not given."""
        if device.type != "nntile":
            raise InvalidArgumentError(
                f"accelerator='nntile' with a strategy for device {device}: pass strategy='nntile'"
            )

    def teardown(self) -> None:
        pass

    @staticmethod
    def parse_devices(devices: int | str | list[int]) -> list[int]:
        """[0] for 1, "1", [0], "0," and -1: StarPU uses all cores for one device. A process of torchrun
        has one: [0, 1] for the 2 that it has started."""
        count = int(_c.settings().local_processes)
        if devices not in (count, str(count), -1, "-1", "0,", [0]):
            raise InvalidArgumentError(
                f"devices={devices!r}: there is one device nntile a process, which uses all cores, and "
                f"{count} processes; start more by torchrun"
            )
        return list(range(count))

    @staticmethod
    def get_parallel_devices(devices: list[int]) -> list[torch.device]:
        return [torch.device("nntile", 0) for _ in devices]

    @staticmethod
    def auto_device_count() -> int:
        return 1

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def name() -> str:
        return "nntile"

    def get_device_stats(self, device: Any) -> dict[str, Any]:
        return dict(memory_stats())


def _with_device(options: dict[str, Any]) -> dict[str, Any]:
    return {"accelerator": NntileAccelerator(), "device": torch.device("nntile", 0), **options}


def _for_device(precision: Any) -> Any:
    """Lightning makes its plugin of mixed precision for "cuda" or "cpu"."""
    if isinstance(precision, (MixedPrecision, FabricMixedPrecision)):
        if precision.scaler is not None and precision.device != "nntile":
            precision.scaler = torch.amp.GradScaler("nntile")
        precision.device = "nntile"
    return precision


class _OnDevice(strategies.Strategy):
    @property
    def precision_plugin(self) -> Any:
        return super().precision_plugin

    @precision_plugin.setter
    def precision_plugin(self, plugin: Any) -> None:
        self._precision_plugin = _for_device(plugin)


class NntileStrategy(_OnDevice, strategies.SingleDeviceStrategy):
    """`Trainer(strategy=NntileStrategy())` brings its accelerator."""

    strategy_name = "nntile"

    def __init__(self, **options: Any) -> None:
        super().__init__(**_with_device(options))


class NntileDdpStrategy(_OnDevice, strategies.DDPStrategy):
    """DistributedDataParallel in the processes that torchrun has started."""

    strategy_name = "nntile_ddp"

    def determine_ddp_device_ids(self) -> None:
        """None: Lightning would make a stream of CUDA for them."""


class NntileCallback(Callback):
    """Cuts and a profile: `Trainer(callbacks=[NntileCallback(tiling={"batch": 4})])`.

    Options are those of `torch_nntile.integrations.loops.Steps`. A batch is a step.
    """

    def __init__(self, **options: Any) -> None:
        self.steps = Steps(**options)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Before the first batch."""
        self.steps.begin()

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """With the batch on the device."""
        self.steps.step_begin(batch)

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        """After the optimizer's step."""
        self.steps.step_end()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """After the last batch."""
        self.steps.end()


class NntileFabricStrategy(FabricSingleDevice):
    """`Fabric(strategy=NntileFabricStrategy())` brings its accelerator."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**_with_device(options))

    @property
    def precision(self) -> Any:
        return super().precision

    @precision.setter
    def precision(self, plugin: Any) -> None:
        self._precision = _for_device(plugin)


accelerators.AcceleratorRegistry.register("nntile", NntileAccelerator)
ACCELERATOR_REGISTRY.register("nntile", NntileAccelerator)
strategies.StrategyRegistry.register("nntile", NntileStrategy)
strategies.StrategyRegistry.register("nntile_ddp", NntileDdpStrategy)
STRATEGY_REGISTRY.register("nntile", NntileFabricStrategy)
