"""The probability that each variant of an A/B test is the best one, given its results."""

from collections.abc import Sequence
from math import exp, lgamma, log, sqrt
from typing import Final

# Points per variant, and how far they reach from its mean, in standard deviations.
_POINTS: Final = 1_000
_REACH: Final = 10.0


def probabilities_to_be_best(results: Sequence[tuple[int, int]]) -> list[float]:
    """Return the probability for each variant, from the number of its messages and the number of those with an open or
    click.

    The unknown rate of a variant has a beta distribution: before the test every rate is equally likely. The result is
    the integral of the variant's density times the distribution functions of all others.
    """
    shapes = [(engaged + 1.0, max(sent - engaged, 0) + 1.0) for sent, engaged in results]
    points = _points(shapes)
    densities = [_densities(points, *shape) for shape in shapes]
    distributions = [_integrate(points, density) for density in densities]
    areas = []
    for number, density in enumerate(densities):
        heights = list(density)
        for other, distribution in enumerate(distributions):
            if other != number:
                heights = [height * below for height, below in zip(heights, distribution, strict=True)]
        areas.append(_integrate(points, heights)[-1])
    total = sum(areas)
    return [area / total for area in areas]


def _points(shapes: Sequence[tuple[float, float]]) -> list[float]:
    """Return points that lie close together wherever a density is large."""
    points = {0.0, 1.0}
    for a, b in shapes:
        mean = a / (a + b)
        reach = _REACH * sqrt(mean * (1 - mean) / (a + b + 1))
        begin, end = max(mean - reach, 0.0), min(mean + reach, 1.0)
        points.update(begin + (end - begin) * step / _POINTS for step in range(_POINTS + 1))
    return sorted(points)


def _densities(points: Sequence[float], a: float, b: float) -> list[float]:
    scale = lgamma(a + b) - lgamma(a) - lgamma(b)
    return [_density(point, a, b, scale) for point in points]


def _density(point: float, a: float, b: float, scale: float) -> float:
    if point in (0.0, 1.0):  # The logarithm is not defined there.
        exponent = a if point == 0.0 else b
        return exp(scale) if exponent == 1.0 else 0.0
    return exp(scale + (a - 1) * log(point) + (b - 1) * log(1 - point))


def _integrate(points: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Return the area up to each point."""
    area, areas = 0.0, [0.0]
    for number in range(1, len(points)):
        area += (points[number] - points[number - 1]) * (heights[number] + heights[number - 1]) / 2
        areas.append(area)
    return areas
