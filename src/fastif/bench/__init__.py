"""Benchmarks: each measures its baseline in the same run."""
