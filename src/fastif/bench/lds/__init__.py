"""How well influence predicts retraining, at every damping: the measurement behind the default damping.

    python -m fastif.bench.lds [--setting NAME ...] [--subsets S] [--seeds R] [--out DIR]

The linear datamodeling score (LDS) of a query is Spearman's correlation, over random halves of the training data,
between the sum of the influences of a half's examples and the query's loss after training on that half. For each seed a
model is trained on all data and one on each half, from the same start in the same order; true losses are means over
seeds; influence is that of each seed's full model, solved exactly with the Gauss-Newton matrix, and the LDS of those
models are averaged. Intervals are bootstraps over queries.
"""
