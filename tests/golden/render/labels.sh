#!/bin/sh
# Rendered by migsaw from a plan of snapshot sha256:41bf38417521b54c5a7a5b6fadb0a619c5a82729546620666c3b9ff099faed96
#
# A label re-cuts its node at once, and whatever still runs on a GPU that it re-cuts fails; GPUs whose layout
# stays are left alone. For each node: cordon it, wait until nothing uses the GPUs named with it, run its line,
# wait for nvidia.com/mig.config.state=success, see that the node advertises the new slices, uncordon it.

set -eu

# aks-a100x4-30274113-vmss000000: re-cuts GPU 1; the label was: halves-and-whole
kubectl label node aks-a100x4-30274113-vmss000000 nvidia.com/mig.config=migsaw-6882de8a5a --overwrite
