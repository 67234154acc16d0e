"""How many generated examples the property tests run."""

from hypothesis import settings

# The examples of a test in the suite. The profile `many`, which `make faults` uses, runs ten times as many.
EXAMPLES = 50

# No deadline for one example, because the machine may be busy. The suite tries the same examples in
# each run, so that it gives the same result for the same code; the profile `many` tries new ones.
settings.register_profile("tests", deadline=None, max_examples=EXAMPLES, derandomize=True)
settings.register_profile("many", deadline=None, max_examples=10 * EXAMPLES)


def examples(number: int) -> int:
    """Return the number of examples of a test that runs `number` in the suite, for the profile in use."""
    return number * settings().max_examples // EXAMPLES
