"""The paper's experiments, one file each, with their settings, data and models: `fastif reproduce`.

Guo, Rajani, Hase, Bansal, Xiong: FastIF: Scalable Influence Functions for Efficient Model Interpretation and Debugging,
EMNLP 2021. Only here and in the benchmarks may a data set or a model be named.
"""
