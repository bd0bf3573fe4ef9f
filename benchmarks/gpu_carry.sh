#!/usr/bin/env bash
# What a machine with an NVIDIA GPU and without internet lacks for `gpu_conformance.py`, into .carry/ (at most 64 MiB):
# wheels for CPython 3.12 on x86-64 Linux, the Vulkan loader, glslang and spirv-val.   bash benchmarks/gpu_carry.sh
# It expects there: numpy, scipy, torch, cupy, jax, pytest, pytest-xdist, hypothesis, click, rich, mpmath.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf .carry
mkdir -p .carry/wheels .carry/debs

platforms=()
for tag in manylinux_2_39 manylinux_2_34 manylinux_2_31 manylinux_2_28 manylinux_2_27 manylinux_2_24 manylinux_2_17 manylinux2014 manylinux1; do
  platforms+=(--platform "${tag}_x86_64")
done
python3 -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 --implementation cp "${platforms[@]}" \
  -d .carry/wheels islpy z3-solver wgpu==0.32.0 cffi pycparser pyopencl rendercanvas siphash24 pytools platformdirs sniffio

# the driver for Vulkan is part of the one for X: it wants these libraries, though no display
(cd .carry/debs && apt-get download libvulkan1 glslang-tools spirv-tools libglvnd0 libglx0 libgl1 libegl1 libx11-6 libxext6 \
  libxcb1 libxau6 libxdmcp6 libbsd0 libmd0)

du -sh .carry
if [ "$(du -sm .carry | cut -f1)" -gt 60 ]; then
  echo "more than 60 MiB: too much to carry" >&2
  exit 1
fi
