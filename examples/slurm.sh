#!/bin/bash
# Explain predictions on two machines of four GPUs each: sbatch examples/slurm.sh
#SBATCH --job-name=fastif
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
#SBATCH --time=01:00:00
#SBATCH --requeue
set -euo pipefail

first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# The job's number makes a port, so that two jobs on one machine are in nobody's way. Started again, the run goes on.
srun torchrun \
    --nnodes "$SLURM_NNODES" --nproc-per-node 4 \
    --rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d --rdzv-endpoint "$first:$((20000 + SLURM_JOB_ID % 20000))" \
    -m fastif explain runs/sentiment --train train.parquet --query dev.csv --wrong -o runs/why
