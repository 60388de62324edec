"""Compiled kernels: arrays in, arrays out. A kernel opens no file and knows no estimator."""
