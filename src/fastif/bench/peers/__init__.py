"""fastif beside other libraries of influence functions, on the same model, data and queries, on a CPU.

    fastif bench peers [--only NAME ...] [--examples N] [--queries Q] [--threads T] [--out FILE]

Each library is installed into an environment of its own under the output directory, and each of its methods runs in a
process of its own. Measured are seconds (wall and processor) from the loaded model and data to all scores, the peak of
memory, and Pearson's correlation with exact scores, by the Gauss-Newton matrix and by the Hessian, a query at a time
and averaged.
"""

from fastif.bench.peers.comparison import run
from fastif.bench.peers.report import section, table

__all__ = ["run", "section", "table"]
