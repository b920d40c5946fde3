"""Tests."""

import os

# `preexec_fn` runs between fork and exec, when gRPC would start threads whose descriptors exec closes: it aborts then.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
