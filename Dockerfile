# An image for the nodes of a cluster: FleetRec with its extras, and no compiler.
#
#   docker build -t fleetrec .
#
# PyPI's torch contains CUDA: the image runs on machines with and without GPUs. A smaller one, for
# CPUs only, takes torch from PyTorch's own index: --build-arg TORCH_INDEX=<address of CPU wheels>.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ARG TORCH_INDEX=""
ARG EXTRAS="kafka,nats,onnx,s3,serve,tensorboard"
# Debian keeps only the newest build of a package: a pinned one would soon be gone.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends g++ \
 && rm -rf /var/lib/apt/lists/*
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=/opt/fleetrec/bin:$PATH
RUN python3 -m venv /opt/fleetrec
WORKDIR /source
# torch first, by its exact version: this layer stays as long as the version does.
COPY constraints.txt ./
RUN pip install -c constraints.txt ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch
COPY pyproject.toml CMakeLists.txt README.md LICENSE ./
COPY native native
COPY src src
RUN pip install -c constraints.txt ".[$EXTRAS]"

FROM ${PYTHON_IMAGE}
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends libgomp1 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 1000 fleetrec \
 && install -d -o fleetrec -g fleetrec /fleetrec/work /fleetrec/state
COPY --from=build /opt/fleetrec /opt/fleetrec
ENV PATH=/opt/fleetrec/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 1000
WORKDIR /fleetrec/work
CMD ["fleetrec", "--help"]
