"""What bench/attention.py is made of: workers, inputs and their comparison, floors, tables."""
