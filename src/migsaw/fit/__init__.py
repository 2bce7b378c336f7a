"""PURE: which profiles can hold a workload, from what is declared and what was seen."""
