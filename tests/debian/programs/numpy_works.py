# needs: python3-numpy
"""Arrays whose temporaries NumPy takes for its own, linear algebra, and a ufunc made of a Python function."""
import numpy as np

a = np.arange(100_000, dtype=float)
print((a + 1 + 2 + 3).sum(), np.linalg.det(np.eye(50) * 1.01).round(6), np.frompyfunc(lambda x, y: x * y, 2, 1)(a[:5], 3).tolist())
print(np.fromiter((i * i for i in range(10)), int).tolist(), np.vectorize(lambda x: x + 1)([1, 2]).tolist())
