"""Online placement on GPUs that are shared by thousandths, on nodes with CPU and memory, as the openb traces have them.

:mod:`values` says what nodes and requests are, :mod:`cluster` keeps what is free, :mod:`placer` finds the best node
from scores that it keeps. :mod:`rules` are the policies of others and :mod:`priced` is migsaw's own; :mod:`worth` adds
up what a node is worth to them. See ``designs/0010-shared-gpus.md``.
"""
