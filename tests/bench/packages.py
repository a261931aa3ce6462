# SPDX-License-Identifier: BSD-3-Clause
"""Programs of packages that nobody here wrote: training steps beside CPU PyTorch, losses and time.

    pip install torch==2.13.0 efficientnet_pytorch torchdiffeq vector-quantize-pytorch pykan \\
        tab-transformer-pytorch pytorch-tabnet gpytorch pyro-ppl monai normflows kornia conformer \\
        perceiver-pytorch pytorch-metric-learning e3nn lion-pytorch local-attention timm diffusers
    python tests/bench/packages.py [NAME ...]

THREADS, STEPS and ROUNDS say how. A row of the table makes a model on a device and gives its step,
which returns the loss. A package that is not installed is a failure: nothing is left out in silence.
"""

from __future__ import annotations

import importlib.util
import math
import os
import sys
import time
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

Step = Callable[[], Tensor]
PROGRAMS: dict[str, tuple[str, Callable[[str], Step]]] = {}


def program(package: str) -> Callable[[Callable[[str], Step]], Callable[[str], Step]]:
    def add(make: Callable[[str], Step]) -> Callable[[str], Step]:
        PROGRAMS[make.__name__] = (package, make)
        return make

    return add


def trained(
    model: nn.Module, loss: Callable[[], Tensor], optimizer: torch.optim.Optimizer | None = None
) -> Step:
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        return value.detach()

    return step


@program("efficientnet_pytorch")
def efficientnet(device: str) -> Step:
    from efficientnet_pytorch import EfficientNet

    model = EfficientNet.from_name(
        "efficientnet-b0", num_classes=10, dropout_rate=0.0, drop_connect_rate=0.0
    )
    model = model.to(device)
    x, y = torch.randn(4, 3, 96, 96).to(device), torch.arange(4).to(device)
    return trained(
        model,
        lambda: nn.functional.cross_entropy(model(x), y),
        torch.optim.SGD(model.parameters(), lr=0.01),
    )


@program("torchdiffeq")
def neural_ode(device: str) -> Step:
    from torchdiffeq import odeint_adjoint

    class Field(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(16, 128), nn.Tanh(), nn.Linear(128, 16))

        def forward(self, t: Tensor, y: Tensor) -> Tensor:
            return self.net(y**3)

    model = Field().to(device)
    y0, t = (torch.randn(512, 16) * 0.5).to(device), torch.linspace(0.0, 1.0, 5).to(device)
    target = torch.randn(512, 16).to(device)
    return trained(
        model, lambda: (odeint_adjoint(model, y0, t, method="dopri5")[-1] - target).square().mean()
    )


@program("vector_quantize_pytorch")
def residual_vq(device: str) -> Step:
    from vector_quantize_pytorch import ResidualVQ

    class Auto(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64)
            self.vq = ResidualVQ(dim=128, num_quantizers=3, codebook_size=256)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            z, _, commit = self.vq(self.up(x))
            return self.down(z), commit.sum()

    model = Auto().to(device)
    x = torch.randn(8, 128, 64).to(device)

    def loss() -> Tensor:
        y, commit = model(x)
        return (y - x).square().mean() + commit

    return trained(model, loss)


@program("tab_transformer_pytorch")
def ft_transformer(device: str) -> Step:
    from tab_transformer_pytorch import FTTransformer

    model = FTTransformer(
        categories=(10, 5, 6, 5, 8),
        num_continuous=10,
        dim=64,
        dim_out=1,
        depth=4,
        heads=8,
        attn_dropout=0.0,
        ff_dropout=0.0,
    ).to(device)
    c, n = torch.randint(0, 5, (128, 5)).to(device), torch.randn(128, 10).to(device)
    y = torch.randn(128, 1).to(device)
    return trained(model, lambda: nn.functional.mse_loss(model(c, n), y))


@program("pytorch_tabnet")
def tabnet(device: str) -> Step:
    from pytorch_tabnet.tab_network import TabNet

    groups = torch.eye(30).to(device)
    model = TabNet(30, 3, n_d=16, n_a=16, group_attention_matrix=groups).to(device)
    x, y = torch.randn(512, 30).to(device), (torch.arange(512) % 3).to(device)

    def loss() -> Tensor:
        out, extra = model(x)
        return nn.functional.cross_entropy(out, y) - 1e-3 * extra

    return trained(model, loss)


@program("gpytorch")
def gaussian_process(device: str) -> Step:
    import gpytorch

    x = torch.linspace(0, 1, 200).to(device)
    y = torch.sin(x * (2 * math.pi)) + torch.randn(200).to(device) * 0.1

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood: nn.Module) -> None:
            super().__init__(x, y, likelihood)
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: Tensor) -> object:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Model(likelihood).to(device)
    model.train()
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    return trained(model, lambda: -mll(model(x), y), torch.optim.Adam(model.parameters(), lr=0.1))


@program("pyro")
def pyro_regression(device: str) -> Step:
    import pyro
    import pyro.distributions as dist
    from pyro.infer import SVI, Trace_ELBO
    from pyro.infer.autoguide import AutoDelta
    from pyro.nn import PyroModule, PyroSample

    own = pyro.params.param_store.ParamStoreDict().get_state()  # the store is one of the process

    class Regression(PyroModule):
        def __init__(self) -> None:
            super().__init__()
            self.linear = PyroModule[nn.Linear](20, 1)
            zero = torch.zeros((), device=device)
            self.linear.weight = PyroSample(dist.Normal(zero, 1.0).expand([1, 20]).to_event(2))
            self.linear.bias = PyroSample(dist.Normal(zero, 10.0).expand([1]).to_event(1))

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            mean = self.linear(x).squeeze(-1)
            with pyro.plate("data", x.shape[0]):
                pyro.sample("obs", dist.Normal(mean, 0.5), obs=y)
            return mean

    x, y = torch.randn(1000, 20).to(device), torch.randn(1000).to(device)
    model = Regression().to(device)
    start = {"linear.weight": torch.zeros(1, 20), "linear.bias": torch.zeros(1)}
    guide = AutoDelta(model, init_loc_fn=lambda site: start[site["name"]].to(device))
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.03}), Trace_ELBO())
    store = pyro.get_param_store()

    def step() -> Tensor:
        nonlocal own
        with store.scope(own) as own:
            return torch.tensor(svi.step(x, y))

    return step


@program("monai")
def monai_unet(device: str) -> Step:
    from monai.losses import DiceCELoss
    from monai.networks.nets import UNet

    model = UNet(3, 1, 2, channels=(16, 32, 64), strides=(2, 2), num_res_units=2, norm="batch").to(
        device
    )
    x = torch.randn(2, 1, 32, 32, 32).to(device)
    y = (torch.rand(2, 1, 32, 32, 32) > 0.5).float().to(device)
    criterion = DiceCELoss(to_onehot_y=True, softmax=True)
    return trained(model, lambda: criterion(model(x), y))


@program("normflows")
def real_nvp(device: str) -> Step:
    import normflows as nf

    flows = []
    for i in range(8):
        mask = torch.tensor([(i + j) % 2 for j in range(8)], dtype=torch.float32)
        s, t = nf.nets.MLP([8, 64, 8], init_zeros=True), nf.nets.MLP([8, 64, 8], init_zeros=True)
        flows += [nf.flows.MaskedAffineFlow(mask, t, s), nf.flows.ActNorm(8)]
    model = nf.NormalizingFlow(nf.distributions.DiagGaussian(8), flows).to(device)
    x = torch.randn(512, 8).to(device)
    return trained(model, lambda: model.forward_kld(x))


@program("kan")
def kan(device: str) -> Step:
    from kan import KAN

    model = KAN(
        width=[4, 8, 1], grid=5, k=3, seed=0, device=device, auto_save=False, symbolic_enabled=False
    )
    x = (torch.rand(256, 4) * 2 - 1).to(device)
    y = (x.prod(1, keepdim=True) * 3).detach()
    return trained(model, lambda: (model(x) - y).square().mean())


@program("kornia")
def kornia_losses(device: str) -> Step:
    import kornia

    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 3, 3, padding=1)
    ).to(device)
    x = torch.rand(4, 3, 64, 64).to(device)

    def loss() -> Tensor:
        y = model(x).sigmoid()
        blurred = kornia.filters.gaussian_blur2d(y, (5, 5), (1.5, 1.5))
        edges = kornia.filters.sobel(y)
        return (
            kornia.losses.ssim_loss(blurred, x, 5)
            + edges.mean()
            + kornia.losses.total_variation(y).mean() * 1e-4
        )

    return trained(model, loss)


@program("conformer")
def conformer(device: str) -> Step:
    from conformer import ConformerBlock

    model = ConformerBlock(
        dim=128, dim_head=32, heads=4, ff_mult=4, conv_expansion_factor=2, conv_kernel_size=31
    ).to(device)
    x = torch.randn(4, 128, 128).to(device)
    return trained(model, lambda: (model(x) - x).square().mean())


@program("perceiver_pytorch")
def perceiver(device: str) -> Step:
    from perceiver_pytorch import Perceiver

    model = Perceiver(
        num_freq_bands=6,
        depth=2,
        max_freq=10.0,
        input_channels=3,
        num_latents=64,
        latent_dim=128,
        num_classes=10,
        latent_heads=4,
        cross_dim_head=32,
        latent_dim_head=32,
    ).to(device)
    x, y = torch.randn(4, 32, 32, 3).to(device), torch.arange(4).to(device)
    return trained(model, lambda: nn.functional.cross_entropy(model(x), y))


@program("pytorch_metric_learning")
def metric_learning(device: str) -> Step:
    from pytorch_metric_learning import losses, miners

    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32)).to(device)
    miner, criterion = miners.MultiSimilarityMiner(), losses.TripletMarginLoss()
    x, y = torch.randn(128, 64).to(device), (torch.arange(128) % 10).to(device)

    def loss() -> Tensor:
        z = model(x)
        return criterion(z, y, miner(z, y))

    return trained(model, loss)


@program("e3nn")
def equivariant(device: str) -> Step:
    from e3nn import o3

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tp = o3.FullyConnectedTensorProduct("16x0e+8x1o", "0e+1o+2e", "16x0e+8x1o")
            self.out = o3.Linear("16x0e+8x1o", "1x0e")

        def forward(self, x: Tensor, edges: Tensor) -> Tensor:
            sh = o3.spherical_harmonics("0e+1o+2e", edges, True, normalization="component")
            return self.out(self.tp(x, sh))

    model = Net().to(device)
    x, edges = torch.randn(500, 40).to(device), torch.randn(500, 3).to(device)
    return trained(model, lambda: model(x, edges).square().mean())


@program("local_attention")
def local_lion(device: str) -> Step:
    from lion_pytorch import Lion
    from local_attention import LocalTransformer

    model = LocalTransformer(
        num_tokens=256,
        dim=128,
        depth=3,
        max_seq_len=256,
        causal=True,
        local_attn_window_size=64,
        dim_head=32,
        heads=4,
    ).to(device)
    x = torch.randint(0, 256, (2, 256)).to(device)
    return trained(model, lambda: model(x, return_loss=True), Lion(model.parameters(), lr=1e-4))


@program("diffusers")
def autoencoder(device: str) -> Step:
    from diffusers import AutoencoderKL

    model = AutoencoderKL(
        block_out_channels=(32, 64),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    ).to(device)
    x = torch.randn(2, 3, 32, 32).to(device)

    def loss() -> Tensor:
        coded = model.encode(x).latent_dist
        made = model.decode(coded.mode()).sample
        return (made - x).square().mean() + 1e-6 * coded.kl().sum()

    return trained(model, loss)


def of_timm(name: str) -> None:
    def make(device: str) -> Step:
        import timm

        model = timm.create_model(name, num_classes=10).to(device)
        x, y = torch.randn(2, 3, 224, 224).to(device), torch.arange(2).to(device)
        return trained(model, lambda: nn.functional.cross_entropy(model(x), y))

    PROGRAMS[name] = ("timm", make)


@program("timm")
def siamese(device: str) -> Step:
    """An evaluation, as in PyTorch's example: pairs of digits through one ResNet-18."""
    import timm

    model = timm.create_model("resnet18", in_chans=1, num_classes=0).to(device).eval()
    head = nn.Sequential(nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 1)).to(device)
    first, second = (torch.randn(250, 1, 28, 28).to(device) for _ in range(2))
    same = (torch.arange(250) % 2).float().to(device)

    @torch.no_grad()
    def step() -> Tensor:
        made = torch.sigmoid(head(torch.cat((model(first), model(second)), 1)))
        return nn.functional.binary_cross_entropy(made.squeeze(), same)

    return step


for model in (
    *("coatnet_pico_rw_224", "mixer_s32_224", "beit_base_patch16_224"),
    *("vit_tiny_patch16_224", "deit_tiny_patch16_224"),
):
    of_timm(model)


def main(names: list[str]) -> int:
    import torch_nntile

    warnings.simplefilter("ignore")
    torch.set_num_threads(int(os.environ.get("THREADS", "2")))
    steps = int(os.environ.get("STEPS", "3"))
    failed, seen = 0, set[str]()
    for name in names or PROGRAMS:
        package, make = PROGRAMS[name]
        if importlib.util.find_spec(package) is None:
            print(f"{name:18} {package} is not installed")
            failed += 1
            continue
        losses: dict[str, list[float]] = {}
        runs: dict[str, Step] = {}
        try:
            for device in "cpu", "nntile":
                torch.manual_seed(1)
                runs[device] = make(device)
                torch.manual_seed(2)
                losses[device] = [float(runs[device]()) for _ in range(steps)]
            best = {"cpu": math.inf, "nntile": math.inf}
            for _ in range(int(os.environ.get("ROUNDS", "15"))):
                for device, step in runs.items():
                    time.sleep(0.01)
                    start = time.perf_counter()
                    step(), step()
                    if device == "nntile":
                        torch_nntile.wait()
                    best[device] = min(best[device], (time.perf_counter() - start) / 2)
            cpu, ours = losses.values()
            far = max(abs(a - b) / max(1e-6, abs(a)) for a, b in zip(cpu, ours, strict=True))
            if far > 1e-4:
                failed += 1
            print(
                f"{name:18} loss {cpu[-1]:.6f} apart {far:.1e}  cpu {best['cpu'] * 1e3:8.2f} ms  "
                f"nntile {best['nntile'] * 1e3:8.2f} ms  {best['nntile'] / best['cpu']:.2f}"
            )
            host = {entry.overload for entry in torch_nntile.fallback_report()}
            if host - seen:
                print(" " * 18, "on the host:", ", ".join(sorted(host - seen)))
            seen |= host
        except Exception as error:
            failed += 1
            print(f"{name:18} {type(error).__name__}: {str(error)[:600]}")
            if os.environ.get("RAISE"):
                raise
        sys.stdout.flush()
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
