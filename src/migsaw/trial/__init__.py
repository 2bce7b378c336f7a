"""EDGE: measured trials: a workload runs on few slots until its throughput there is known.

One code path (:mod:`migsaw.trial.runner`) for every back end: a back end only gives slots and a trial's events.
"""
