"""Several processes that hold a share of the training data each: one leads, the others do what it asks for.

`torchrun` starts them. The leader (rank 0) runs the program as if it were alone; products with the curvature, repeats
of LiSSA and scores are asked of all. So no two processes can come to different decisions, and what a process holds is
its own share of the stored states, and the scores that it is making.
"""

from fastif.distributed.leader import Leader
from fastif.distributed.team import Team
from fastif.distributed.worker import Duties, share_of, work

__all__ = ["Duties", "Leader", "Team", "share_of", "work"]
