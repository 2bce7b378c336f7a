"""EDGE: measured trials: run a workload on few slots, watch it until its throughput is known, and remember what was seen.

One code path (:mod:`migsaw.trial.runner`) for every back end: a back end only gives slots and a trial's events.
"""
