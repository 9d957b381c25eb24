"""The project's tests: tests/run.py runs them."""
