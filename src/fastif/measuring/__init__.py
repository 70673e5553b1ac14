"""What benchmarks and the paper's experiments share: cases, clocks, plain torch as a baseline, figures in words."""
