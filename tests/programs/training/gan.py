"""A convolutional adversarial pair: two optimisers, real and detached fake batches."""

import torch
import torch.nn as nn


def values(count, seed):
    number = torch.arange(count) * 7919 + seed * 104729 + 1
    return (number * number % 65537).float() / 32768.5 - 1


class Generator(nn.Module):
    def __init__(self, nz=6, ngf=8):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf, 1, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self, ndf=8):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, ndf, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ndf * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False),
        )

    def forward(self, x):
        return self.main(x).view(-1)


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        with torch.no_grad():
            m.weight.copy_(values(m.weight.numel(), m.weight.numel() % 97).view_as(m.weight) * 0.2)
    elif classname.find("BatchNorm") != -1:
        nn.init.constant_(m.weight, 1.0)
        nn.init.constant_(m.bias, 0.0)


batch, nz = 6, 6
netG, netD = Generator(nz), Discriminator()
netG.apply(weights_init)
netD.apply(weights_init)
criterion = nn.BCEWithLogitsLoss()
optimizerD = torch.optim.Adam(netD.parameters(), lr=0.002, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=0.002, betas=(0.5, 0.999))
grid = torch.linspace(-3, 3, 16)
fixed_noise = values(batch * nz, 1).view(batch, nz, 1, 1)

for step in range(20):
    phase = torch.arange(batch).view(-1, 1, 1) + 0.1 * step
    real = torch.sin(grid.view(1, 16, 1) + phase) * torch.cos(grid.view(1, 1, 16) * 0.5)
    real = real.unsqueeze(1)

    netD.zero_grad()
    label = torch.full((batch,), 1.0)
    output = netD(real)
    errD_real = criterion(output, label)
    errD_real.backward()
    D_x = output.sigmoid().mean().item()
    noise = values(batch * nz, step + 2).view(batch, nz, 1, 1)
    fake = netG(noise)
    label.fill_(0.0)
    output = netD(fake.detach())
    errD_fake = criterion(output, label)
    errD_fake.backward()
    errD = errD_real + errD_fake
    optimizerD.step()

    netG.zero_grad()
    label.fill_(1.0)
    output = netD(fake)
    errG = criterion(output, label)
    errG.backward()
    optimizerG.step()
    print(f"[{step}/20] Loss_D: {errD.item():.5f} Loss_G: {errG.item():.5f} D(x): {D_x:.5f}")

netG.eval()
with torch.no_grad():
    fake = netG(fixed_noise)
print(
    tuple(fake.shape),
    f"{fake.abs().mean():.4f}",
    all(p.grad is not None for p in netD.parameters()),
)
