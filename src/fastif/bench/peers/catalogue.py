"""The libraries that are compared, what each needs to be installed, and what each of its methods is given.

Names and words only: the code that calls a library is its script in `scripts/`, which runs where the library is
installed. A method that is given a damping gets the problem's, as the sum or the mean that the library means by it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

SCRIPTS = Path(__file__).parent / "scripts"
TORCH = "torch==2.13.0"
SHARED = ("safetensors==0.8.0",)

Definition = Literal["Gauss-Newton", "Hessian", "empirical Fisher", "gradients alone", "its own"]


@dataclass(frozen=True)
class Method:
    """One way that a library computes scores: what it stands for, and what it was given."""

    name: str
    definition: Definition
    given: str


@dataclass(frozen=True)
class Peer:
    """A library: where it is measured and how it is installed.

    `requirements` is None for the library that runs in this environment, which is fastif; `alone` is installed without
    its dependencies.
    """

    name: str
    script: Path
    requirements: tuple[str, ...] | None
    methods: tuple[Method, ...]
    alone: tuple[str, ...] = ()
    remark: str = ""


FASTIF = Peer(
    "fastif",
    SCRIPTS / "with_fastif.py",
    None,
    (
        Method("auto", "Gauss-Newton", "the damping; defaults"),
        Method("ConjugateGradient, preconditioned", "Gauss-Newton", "the damping; preconditioner_rank=100"),
        Method(
            "ConjugateGradient, preconditioned, loose",
            "Gauss-Newton",
            "the damping; preconditioner_rank=100, tolerance=0.1",
        ),
        Method("ConjugateGradient, Hessian", "Hessian", "the damping; curvature='hessian', preconditioner_rows=400"),
        Method(
            "ConjugateGradient, Hessian, loose",
            "Hessian",
            "the damping; curvature='hessian', preconditioner_rows=400, tolerance=0.1",
        ),
        Method("Woodbury, 20 longest rows", "Gauss-Newton", "the damping; rows=20"),
        Method("Woodbury, 50 longest rows", "Gauss-Newton", "the damping; rows=50"),
        Method("Woodbury, 200 longest rows", "Gauss-Newton", "the damping; rows=200"),
        Method("Woodbury, 800 longest rows", "Gauss-Newton", "the damping; rows=800"),
        Method("Lanczos, rank 100", "Gauss-Newton", "the damping; rank 100"),
        Method("Identity", "gradients alone", "no damping"),
        Method("Identity, last layer", "gradients alone", "no damping; the weight of the last layer"),
    ),
    remark="`auto` is what it does unasked; the others were chosen after 34 of its "
    "settings were tried on this very problem, while others got their defaults and at most two settings chosen by hand",
)

KRONFLUENCE = Peer(
    "Kronfluence",
    SCRIPTS / "with_kronfluence.py",
    ("numpy", "accelerate==1.15.0", "einops", "einconv", "opt-einsum", "tqdm"),
    (
        Method("EK-FAC", "Gauss-Newton", "the damping; batches of 256, all queries at once"),
        Method("EK-FAC, its own damping", "Gauss-Newton", "damping_factor=None: 0.1 x the mean eigenvalue of a layer"),
        Method("K-FAC", "Gauss-Newton", "the damping; batches of 256"),
        Method("diagonal", "Gauss-Newton", "the damping; batches of 256"),
        Method("identity", "gradients alone", "no damping; batches of 256"),
    ),
    alone=("kronfluence==1.0.1",),
    remark="installed without torchvision, which it names and does not import",
)

CAPTUM = Peer(
    "Captum",
    SCRIPTS / "with_captum.py",
    ("captum==0.9.0",),
    (
        Method("TracInCP", "gradients alone", "one checkpoint, batches of 256, gradients of a batch at once"),
        Method("TracInCPFast", "gradients alone", "one checkpoint, the last layer alone, batches of 256"),
        Method("ArnoldiInfluenceFunction", "Hessian", "n x the damping; defaults (rank 50 of 200)"),
        Method("ArnoldiInfluenceFunction, rank 200", "Hessian", "n x the damping; rank 200 of 400, arnoldi_tol=1e-4"),
        Method("NaiveInfluenceFunction", "Hessian", "n x the damping; all eigenvectors (default: 50, same price)"),
    ),
    remark="it adds the Hessians of all n examples up, so that its damping is n times that of their mean; 0.9.0 has "
    "ArnoldiInfluenceFunction without exporting it",
)

PYDVL = Peer(
    "pyDVL",
    SCRIPTS / "with_pydvl.py",
    ("pyDVL[influence]==0.10.0",),
    (
        Method("DirectInfluence", "Hessian", "the damping; batches of 256"),
        Method("CgInfluence", "Hessian", "the damping; defaults (rtol 1e-4), batches of 256"),
        Method(
            "CgInfluence, block and preconditioned",
            "Hessian",
            "the damping; solve_simultaneously, NystroemPreconditioner(100)",
        ),
        Method(
            "CgInfluence, block and preconditioned, loose",
            "Hessian",
            "the damping; solve_simultaneously, NystroemPreconditioner(100), rtol=0.1",
        ),
        Method("LissaInfluence", "Hessian", "the damping; defaults (1,000 steps, scale 10), batches of 256"),
        Method("ArnoldiInfluence", "Hessian", "the damping; rank 100, use_woodbury=True"),
        Method("NystroemSketchInfluence", "Hessian", "the damping; rank 100"),
        Method("EkfacInfluence", "Gauss-Newton", "the damping; update_diagonal=True, batches of 256"),
    ),
    remark="needs numpy below 2, so that it cannot share an environment with the others",
)

DATTRI = Peer(
    "dattri",
    SCRIPTS / "with_dattri.py",
    ("dattri==0.3.0", "numpy"),
    (
        Method("IFAttributorExplicit", "Hessian", "the damping; one batch of all data"),
        Method("IFAttributorCG", "Hessian", "the damping; defaults (10 iterations), one batch of all data"),
        Method("IFAttributorCG, 100 iterations", "Hessian", "the damping; one batch of all data"),
        Method("IFAttributorArnoldi", "Hessian", "the damping; defaults (100 dimensions), one batch of all data"),
        Method(
            "IFAttributorArnoldi, 50 of 100 dimensions", "Hessian", "the damping; proj_dim=50, one batch of all data"
        ),
        Method(
            "IFAttributorLiSSA", "Hessian", "damping x scaling is the damping; defaults (5,000 steps of 1, scale 50)"
        ),
        Method("IFAttributorLiSSA, larger steps", "Hessian", "damping x scaling is the damping; 3,000 of 100, scale 2"),
        Method("IFAttributorDataInf", "its own", "the damping; one batch of all data"),
        Method("IFAttributorEKFAC", "empirical Fisher", "the damping / n^2; one batch of all data"),
        Method("TracInAttributor", "gradients alone", "no projection; one batch of all data"),
        Method("TRAKAttributor", "its own", "defaults (512 dimensions), batches of 256"),
    ),
    remark="its LiSSA turns labels into floats, so that the loss turns them back; its EK-FAC takes eigenvalues from "
    "gradients of the mean over a batch, so that its damping is divided by the square of the batch",
)

DATTRI_LLM = Peer(
    "dattri-llm",
    SCRIPTS / "with_dattri_llm.py",
    ("dattri-llm[transformers]==0.1.0", "numpy"),
    (
        Method("EKFACAttributor", "empirical Fisher", "the damping; live, batches of 256"),
        Method("KFACAttributor", "empirical Fisher", "the damping, added to each factor; live, batches of 256"),
        Method("TracInAttributor", "gradients alone", "live, batches of 256"),
    ),
)

TRAK = Peer(
    "TRAK",
    SCRIPTS / "with_trak.py",
    ("traker==0.3.2",),
    (
        Method("512 dimensions", "its own", "no regularization; one checkpoint, batches of 256"),
        Method("2,048 dimensions", "its own", "the damping as lambda_reg; one checkpoint, batches of 256"),
    ),
    remark="on a CPU it projects by BasicProjector: its fast one needs CUDA",
)

PEERS = (FASTIF, KRONFLUENCE, CAPTUM, PYDVL, DATTRI, DATTRI_LLM, TRAK)
