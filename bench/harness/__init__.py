"""What benchmarks are made of: a program's options and end, workers, inputs and their comparison,
floors, tables."""
