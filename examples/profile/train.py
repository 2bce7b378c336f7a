"""A small training run in pure Python: logistic regression by mini-batches, which prints its throughput as it goes."""

from __future__ import annotations

import argparse
import math
import random
import time

FEATURES = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--every", type=float, default=0.05, help="seconds between lines")
    args = parser.parse_args()
    chance = random.Random(1)
    truth = [chance.gauss(0, 1) for _ in range(FEATURES)]
    weights = [0.0] * FEATURES
    done, waited, begun = 0, 0.0, time.perf_counter()
    for step in range(args.steps):
        before = time.perf_counter()
        batch = [[chance.gauss(0, 1) for _ in range(FEATURES)] for _ in range(args.batch)]  # what a data loader does
        waited += time.perf_counter() - before
        loss = train(weights, batch, truth)
        done += args.batch
        seconds = time.perf_counter() - begun
        if seconds >= args.every:
            print(f"step {step} loss {loss:.4f} samples/s {done / seconds:.1f} data {waited / seconds:.3f}", flush=True)
            done, waited, begun = 0, 0.0, time.perf_counter()


def train(weights: list[float], batch: list[list[float]], truth: list[float]) -> float:
    """One step of gradient descent; returns the mean loss."""
    loss, gradient = 0.0, [0.0] * FEATURES
    for row in batch:
        label = 1.0 if dot(row, truth) > 0 else 0.0
        guess = 1 / (1 + math.exp(-dot(row, weights)))
        loss -= math.log(max(1e-12, guess if label else 1 - guess))
        for i, value in enumerate(row):
            gradient[i] += (guess - label) * value
    for i in range(FEATURES):
        weights[i] -= 0.1 * gradient[i] / len(batch)
    return loss / len(batch)


def dot(left: list[float], right: list[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


if __name__ == "__main__":
    main()
