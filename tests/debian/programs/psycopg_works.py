# needs: python3-psycopg python3-psycopg2
"""Queries put together, and what is said where there is no server."""
import psycopg
import psycopg2
from psycopg import sql

print(sql.SQL("select {} from {}").format(sql.Identifier("a b"), sql.Identifier("t")).as_string(None))
for module in (psycopg, psycopg2):
    try:
        module.connect("host=127.0.0.1 port=1 connect_timeout=2")
    except module.OperationalError:
        print(module.__name__, "no server")
