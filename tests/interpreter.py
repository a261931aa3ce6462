# SPDX-License-Identifier: BSD-3-Clause
"""Programs in processes of their own, without the two seconds that an import of PyTorch takes.

    done = interpreter.run("print(torch.ones(3, device='nntile').sum())")

A server imports torch and torch_nntile, starts nothing, and forks a child for each program. The
child ends as every interpreter does. What depends on the environment, an import or a flag of the
interpreter starts one with `subprocess`.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


@functools.cache
def _server() -> subprocess.Popen[str]:
    """One for each process of pytest; its children are of its process group."""
    server = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    atexit.register(_end, server)
    return server


def _end(server: subprocess.Popen[str]) -> None:
    _server.cache_clear()
    atexit.unregister(_end)
    os.killpg(server.pid, signal.SIGKILL)
    server.communicate()


def run(
    code: str, *arguments: object, cwd: Path | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """What `python -c code arguments` would give; torch and torch_nntile are imported."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        request = {
            "code": code,
            "arguments": ["-c", *map(str, arguments)],
            "files": [os.devnull, str(out), str(err)],
            "cwd": str(cwd or Path.cwd()),
        }
        server = _server()
        assert server.stdin and server.stdout
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        if not select.select([server.stdout], [], [], timeout)[0]:
            _end(server)
            raise subprocess.TimeoutExpired(code, timeout, out.read_text(), err.read_text())
        status = int(server.stdout.readline())
        return subprocess.CompletedProcess(code, status, out.read_text(), err.read_text())


def _serve() -> dict[str, Any]:
    """Returns in each child, with its request."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            return json.loads(line)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    sys.exit()


def _become(request: dict[str, Any]) -> None:
    for target, name in enumerate(request["files"]):
        file = os.open(name, os.O_RDWR | os.O_CREAT)
        os.dup2(file, target)
        os.close(file)
    os.chdir(request["cwd"])
    sys.argv = request["arguments"]
    sys.path[0] = ""


if __name__ == "__main__":
    import torch

    import torch_nntile

    _request = _serve()
    _become(_request)
    _names = {"__name__": "__main__", "torch": torch, "torch_nntile": torch_nntile}
    exec(compile(_request["code"], "<string>", "exec"), _names)
