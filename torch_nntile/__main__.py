# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_nntile`: the commands that the package has."""

from __future__ import annotations

COMMANDS = {
    "train_mnist": "train DeepReLU on 60,000 images, on this device and on the CPU",
    "diagnose": "tell why the device does not work",
    "calibrate": "measure the constants of the cost module on this machine",
    "conformance": "run PyTorch's op_db on the device (for developers)",
    "conformance.device_tests": "run PyTorch's own device tests (for developers)",
}

if __name__ == "__main__":
    width = max(map(len, COMMANDS))
    print("python -m torch_nntile.COMMAND --help tells more about each command:\n")
    for name, what in COMMANDS.items():
        print(f"  {name:{width}}  {what}")
