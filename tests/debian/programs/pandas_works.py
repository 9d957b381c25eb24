# needs: python3-pandas
"""Groups, functions in Python over rows, a join, dates."""
import pandas as pd

table = pd.DataFrame({"k": list("abcab"), "v": range(5), "d": pd.date_range("2026-01-01", periods=5)})
print(table.groupby("k")["v"].agg(["sum", "max"]).to_dict())
print(table.apply(lambda row: row["k"] * row["v"], axis=1).tolist())
print(table.merge(table.groupby("k")["v"].mean().rename("m"), on="k").query("v > m")["d"].dt.day.tolist())
